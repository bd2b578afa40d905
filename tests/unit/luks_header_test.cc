// SPDX-License-Identifier: GPL-3.0-or-later
//
// The part of a header that an attacker writes most freely, without any file: the LUKS2 JSON, and
// what follows from it on a device of a given size.
#include "core/luks_header.h"

#include <string>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

const char* const kGood = R"({"keyslots":{"0":{"type":"luks2","key_size":64,
  "area":{"type":"raw","offset":"32768","size":"258048","encryption":"aes-xts-plain64","key_size":64},
  "kdf":{"type":"argon2id","time":4,"memory":1048576,"cpus":4,"salt":""}},
  "10":{"type":"luks2","key_size":64,"priority":0,"area":{"encryption":"aes-xts-plain64"},
  "kdf":{"type":"pbkdf2","hash":"sha512","iterations":1000}},
  "2":{"type":"luks2","key_size":64,"priority":2,"area":{"encryption":"aes-xts-plain64"},
  "kdf":{"type":"pbkdf2","hash":"sha512","iterations":1000}}},
  "tokens":{},
  "segments":{"0":{"type":"crypt","offset":"16777216","size":"dynamic","iv_tweak":"0",
  "encryption":"aes-xts-plain64","sector_size":4096}},
  "digests":{"0":{"type":"pbkdf2","keyslots":["0","10"],"segments":["0"]},
  "1":{"type":"pbkdf2","keyslots":["2"],"segments":[]}},
  "config":{"json_size":"12288","keyslots_size":"16744448"}})";

LuksHeader empty_header() {
  LuksHeader header;
  header.info.metadata_size_bytes = 16384;
  return header;
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kGood;
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return found == std::string::npos ? text : text.replace(found, from.size(), to);
}

TEST(LuksHeaderTest, ReadsTheJson) {
  LuksHeader header = empty_header();
  const Status parsed = parse_luks2_json(kGood, header);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(header.structure_refusal, "");
  EXPECT_EQ(header.info.cipher, "aes-xts-plain64");
  EXPECT_EQ(header.info.sector_size_bytes, 4096U);
  EXPECT_EQ(header.info.data_offset_bytes, 16 * kMiB);
  EXPECT_EQ(header.header_end_bytes, 16 * kMiB);
  EXPECT_FALSE(header.fixed_size_bytes);
  ASSERT_EQ(header.info.keyslots.size(), 3U);
  const KeyslotInfo& argon = header.info.keyslots[0];
  EXPECT_EQ(argon.kdf, "argon2id");
  EXPECT_EQ(argon.iterations, 4U);
  EXPECT_EQ(argon.memory_kib, 1048576U);
  EXPECT_EQ(argon.parallel, 4U);
  EXPECT_TRUE(argon.assigned_to_segment);
  const KeyslotInfo& unbound = header.info.keyslots[1];
  EXPECT_EQ(unbound.number, 2);
  EXPECT_EQ(unbound.priority, "prefer");
  EXPECT_FALSE(unbound.assigned_to_segment);
  EXPECT_EQ(header.info.keyslots[2].number, 10);
  EXPECT_EQ(header.info.keyslots[2].priority, "ignore");
  EXPECT_EQ(header.info.keyslots[2].iterations, 1000U);
}

TEST(LuksHeaderTest, MalformedJsonIsCorrupt) {
  const std::string cases[] = {
      "",
      "{",
      "[]",
      "null",
      "\"x\"",
      std::string(100000, '['),
      "{\"segments\":{}}",
      with("\"16777216\"", "16777216"),
      with("\"16777216\"", "\"-1\""),
      with("\"16777216\"", "\"0x10\""),
      with("\"16777216\"", "\"\""),
      with("\"16777216\"", "\"99999999999999999999\""),
      with("\"dynamic\"", "\"most\""),
      with("\"dynamic\"", "7"),
      with("\"10\":{", "\"32\":{"),
      with("\"10\":{", "\"x\":{"),
      with("\"16744448\"", "\"18446744073709551615\""),
      with("\"16744448\"", "null"),
      with("\"json_size\"", "\"requirements\":7,\"json_size\""),
      with("\"json_size\"", "\"requirements\":{\"mandatory\":7},\"json_size\""),
  };
  for (const std::string& text : cases) {
    LuksHeader header = empty_header();
    const Status parsed = parse_luks2_json(text, header);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::corrupt);
  }
}

TEST(LuksHeaderTest, WhatIsNotServedIsNamed) {
  struct {
    std::string text;
    const char* says;
  } const cases[] = {
      {with("\"iv_tweak\":\"0\"", "\"iv_tweak\":\"18446744073709551615\""), "18446744073709551615"},
      {with("\"iv_tweak\":\"0\"", "\"iv_tweak\":0"), "iv_tweak"},
      {with("\"iv_tweak\":\"0\",", ""), "iv_tweak"},
      {with("\"type\":\"crypt\"", "\"type\":\"linear\""), "linear"},
      {with("\"iv_tweak\"", "\"integrity\":{\"type\":\"aead\"},\"iv_tweak\""), "aead"},
      {with("\"iv_tweak\"", "\"flags\":[\"backup-final\"],\"iv_tweak\""), "backup-final"},
      {with("\"segments\":{\"0\"", "\"segments\":{\"1\":{},\"0\""), "2 data segments"},
      {with("\"json_size\"", "\"requirements\":{\"mandatory\":[\"a\",\"b\"]},\"json_size\""),
       "a, b"},
      {with("\"json_size\"", "\"requirements\":{\"optional\":[\"c\"]},\"json_size\""), "c"},
      {with("\"json_size\"", "\"requirements\":{\"mandatory\":[7]},\"json_size\""), "7"},
      {with("\"json_size\"",
            "\"requirements\":{\"mandatory\":[\"offline-reencrypt\"]},\"json_size\""),
       "re-encryption"},
  };
  for (const auto& each : cases) {
    LuksHeader header = empty_header();
    const Status parsed = parse_luks2_json(each.text, header);
    ASSERT_TRUE(parsed) << each.says << ": " << parsed.error().message;
    EXPECT_NE(header.structure_refusal.find(each.says), std::string::npos)
        << header.structure_refusal;
    EXPECT_FALSE(judge_placement(header, DataFacts{64 * kMiB, true}).refusal.empty());
  }
}

TEST(LuksHeaderTest, ControlCharactersDoNotReachMessages) {
  LuksHeader header = empty_header();
  ASSERT_TRUE(parse_luks2_json(with("\"type\":\"crypt\"", "\"type\":\"\\u001b[2J\\n\""), header));
  EXPECT_EQ(header.structure_refusal.find_first_of("\x1b\n"), std::string::npos);
}

TEST(LuksHeaderTest, AKeyslotUnderTwoDigestsIsNotUsed) {
  LuksHeader header = empty_header();
  ASSERT_TRUE(parse_luks2_json(with("[\"2\"]", "[\"2\",\"0\"]"), header));
  EXPECT_FALSE(header.info.keyslots[0].assigned_to_segment);
}

LuksHeader placed(std::uint64_t offset_bytes, std::optional<std::uint64_t> size_bytes,
                  std::uint32_t sector_bytes = 4096) {
  LuksHeader header;
  header.info.cipher = "aes-xts-plain64";
  header.info.data_offset_bytes = offset_bytes;
  header.info.sector_size_bytes = sector_bytes;
  header.fixed_size_bytes = size_bytes;
  header.header_end_bytes = kMiB;
  return header;
}

TEST(LuksHeaderTest, Placement) {
  constexpr std::uint64_t kMax = UINT64_MAX;
  struct {
    std::uint64_t offset;
    std::optional<std::uint64_t> size;
    std::uint64_t device;
    bool attached;
    std::uint64_t image;
    bool readable;
    bool writable;
  } const cases[] = {
      {kMiB, {}, 2 * kMiB, true, kMiB, true, true},
      {kMiB, {}, 2 * kMiB + 4095, true, kMiB, true, true},
      {kMiB, {}, kMiB + 4096, true, 4096, true, true},
      {kMiB, {}, kMiB + 4095, true, 0, false, false},
      {kMiB, {}, 0, true, 0, false, false},
      {kMiB, kMiB, 2 * kMiB, true, kMiB, true, true},
      {kMiB, kMiB, 2 * kMiB - 1, true, kMiB, true, false},
      {kMiB, kMiB, 0, true, kMiB, true, false},
      {kMiB, 0, 2 * kMiB, true, 0, false, false},
      {kMiB, 4097, 2 * kMiB, true, 0, false, false},
      {kMiB - 512, {}, 2 * kMiB, true, 0, false, false},
      {0, {}, 2 * kMiB, true, 0, false, false},
      {0, {}, 2 * kMiB, false, 2 * kMiB, true, true},
      {512, {}, 2 * kMiB, false, 2 * kMiB - 4096, true, true},
      {511, {}, 2 * kMiB, false, 0, false, false},
      {kMax - 511, {}, 2 * kMiB, false, 0, false, false},
      {kMiB, kMax - 4095, 2 * kMiB, true, 0, false, false},
      {kMiB, std::uint64_t{1} << 63, kMax, true, 0, false, false},
  };
  for (const auto& each : cases) {
    const Placement placement =
        judge_placement(placed(each.offset, each.size), DataFacts{each.device, each.attached});
    EXPECT_EQ(placement.image_size_bytes, each.image) << each.offset << " " << each.device;
    EXPECT_EQ(placement.refusal.empty(), each.readable) << placement.refusal;
    EXPECT_EQ(placement.write_refusal.empty(), each.writable) << placement.write_refusal;
  }
  EXPECT_FALSE(
      judge_placement(placed(kMiB, {}, 0), DataFacts{2 * kMiB, true}).write_refusal.empty());
}

}  // namespace
}  // namespace cryptimg
