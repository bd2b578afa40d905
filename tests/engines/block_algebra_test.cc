// SPDX-License-Identifier: GPL-3.0-or-later
//
// The block algebra and the IVs it rests on: over random extents, cut at random, each form gives
// byte for byte what OpenSSL gives sector by sector. The driver is OpenSSL too, but as a driver
// works: one IV for all it is sent.
#include "engines/block_algebra.h"

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "engines/sector_ivs.h"
#include "tests/engines/engine_cases.h"
#include "tests/support/raw_cipher.h"
#include "tests/support/reference_cipher.h"

namespace cryptimg::test {
namespace {

constexpr std::array kAlgModes = {AlgMode::ecb, AlgMode::cbc, AlgMode::xts};

// The part of the volume key that the driver's transform gets.
Bytes driver_key(const CipherSpec& spec, AlgMode driver, Bytes key) {
  return spec.mode == CipherMode::aes_xts && driver != AlgMode::xts ? key.first(key.size() / 2)
                                                                    : key;
}

TEST(SectorIvsTest, AreThoseOfTheReference) {
  for (CipherSpec spec : every_cipher()) {
    for (const std::uint32_t sector_bytes : kSectorSizes) {
      spec.sector_size_bytes = sector_bytes;
      const ByteVector key = random_bytes(spec.key_size_bytes, 3);
      const ReferenceCipher reference(spec, key);
      auto ivs = SectorIvs::create(spec, secret(key));
      ASSERT_TRUE(ivs);
      const std::uint64_t wrap = kPlainWrap / (sector_bytes / kIvUnitBytes);
      for (const std::uint64_t first : {std::uint64_t{0}, wrap - 2, wrap, std::uint64_t{1} << 50}) {
        ByteVector made(5 * kCipherBlockBytes);
        ASSERT_TRUE(ivs->fill(first, made));
        for (std::size_t i = 0; i < 5; ++i) {
          const Block start = reference.iv(first + i);
          const Block right = spec.mode == CipherMode::aes_xts
                                  ? BlockCipher(Bytes(key).last(key.size() / 2)).encrypt(start)
                                  : start;
          EXPECT_TRUE(std::equal(right.begin(), right.end(),
                                 made.begin() + static_cast<long>(i * kCipherBlockBytes)))
              << cipher_name(spec) << " " << sector_bytes << " sector " << first + i;
        }
      }
    }
  }
}

class BlockAlgebra : public ::testing::TestWithParam<CipherSpec> {
 protected:
  struct Case {
    CipherSpec spec;
    AlgMode driver;
    Direction direction;
    OffloadForm form;
  };

  // What the algebra makes of one piece. `in_place` prepares and mends in the buffers themselves.
  static ByteVector piece(const Case& c, Bytes key, SectorIvs& ivs, std::uint64_t first_sector,
                          Bytes source, bool in_place) {
    const std::size_t sector_bytes = c.spec.sector_size_bytes;
    ByteVector iv_table(source.size() / sector_bytes * kCipherBlockBytes);
    ByteVector long_tweak(kCipherBlockBytes);
    EXPECT_TRUE(ivs.fill(first_sector, iv_table));
    if (c.form == OffloadForm::xts_over_xts) {
      EXPECT_TRUE(ivs.zero_tweak(long_tweak));
    }
    const SectorRun run{sector_bytes, iv_table, long_tweak};

    ByteVector sent(source.begin(), source.end());
    if (in_place) {
      prepare_run(c.form, run, sent, sent);
    } else {
      prepare_run(c.form, run, source, sent);
    }
    ByteVector answer(sent.size());
    const std::size_t step = c.form == OffloadForm::cbc_sectors ? sector_bytes : sent.size();
    for (std::size_t at = 0; at < sent.size(); at += step) {
      const auto iv = operation_iv(
          c.form, {sector_bytes, Bytes(iv_table).subspan(at / sector_bytes * kCipherBlockBytes),
                   long_tweak});
      EXPECT_TRUE(raw_operation(c.driver, driver_key(c.spec, c.driver, key), c.direction,
                                c.driver == AlgMode::ecb ? Bytes() : Bytes(iv),
                                Bytes(sent).subspan(at, step),
                                MutableBytes(answer).subspan(at, step)));
    }
    ByteVector target(sent.size(), std::byte{0x5A});
    for (std::size_t i = 0; i < sent.size() / sector_bytes; ++i) {
      mend_sector(c.form, run, i, sent, answer,
                  MutableBytes(target).subspan(i * sector_bytes, sector_bytes));
    }
    if (in_place) {
      mend_run(c.form, run, sent, answer, answer);
      EXPECT_EQ(target, answer) << "one sector at a time it is another";
      return answer;
    }
    ByteVector whole(sent.size(), std::byte{0x5A});
    mend_run(c.form, run, sent, answer, whole);
    EXPECT_EQ(target, whole) << "one sector at a time it is another";
    return whole;
  }
};

TEST_P(BlockAlgebra, GivesWhatOpensslGivesHoweverCut) {
  std::mt19937_64 random(GetParam().key_size_bytes + static_cast<unsigned>(GetParam().mode));
  for (const AlgMode driver : kAlgModes) {
    for (const Direction direction : kDirections) {
      Case c{GetParam(), driver, direction, offload_form(GetParam().mode, driver, direction)};
      if (c.form == OffloadForm::none) {
        continue;
      }
      for (int round = 0; round < 60; ++round) {
        c.spec.sector_size_bytes = kSectorSizes[random() % kSectorSizes.size()];
        const std::size_t sector_bytes = c.spec.sector_size_bytes;
        const ByteVector key =
            random_bytes(c.spec.key_size_bytes, static_cast<std::uint32_t>(random()));
        const auto engine = engine_for("openssl", c.spec);
        const auto oracle = session_for(*engine, c.spec, key);
        auto ivs = SectorIvs::create(c.spec, secret(key));
        ASSERT_TRUE(oracle != nullptr && ivs);

        const std::size_t sectors = 1 + random() % 24;
        const std::uint64_t first = round % 3 == 0 ? kPlainWrap / (sector_bytes / 512) - 3
                                                   : random() % (std::uint64_t{1} << 40);
        const ByteVector source =
            random_bytes(sectors * sector_bytes, static_cast<std::uint32_t>(random()));
        const ByteVector right = transformed(*oracle, direction, first, source);

        ByteVector made;
        for (std::size_t done = 0; done < sectors;) {
          const std::size_t part = 1 + random() % (sectors - done);
          const ByteVector one = piece(
              c, key, *ivs, first + done,
              Bytes(source).subspan(done * sector_bytes, part * sector_bytes), random() % 2 == 0);
          made.insert(made.end(), one.begin(), one.end());
          done += part;
        }
        ASSERT_EQ(made, right) << alg_name(driver) << ", " << sector_bytes << " bytes, "
                               << (direction == Direction::encrypt ? "encrypt" : "decrypt");
      }
    }
  }
}

std::string spec_name(const ::testing::TestParamInfo<CipherSpec>& info) {
  return identifier(cipher_name(info.param) + "_" + std::to_string(info.param.key_size_bytes * 8));
}

INSTANTIATE_TEST_SUITE_P(Ciphers, BlockAlgebra, ::testing::ValuesIn(every_cipher()), spec_name);

TEST(OffloadFormTest, OnlySerialChainsHaveNone) {
  const auto form = offload_form;
  constexpr auto kEncrypt = Direction::encrypt;
  constexpr auto kDecrypt = Direction::decrypt;
  EXPECT_EQ(form(CipherMode::aes_xts, AlgMode::cbc, kEncrypt), OffloadForm::none);
  EXPECT_EQ(form(CipherMode::aes_cbc, AlgMode::ecb, kEncrypt), OffloadForm::none);
  EXPECT_EQ(form(CipherMode::aes_cbc, AlgMode::xts, kEncrypt), OffloadForm::none);
  EXPECT_EQ(form(CipherMode::aes_cbc, AlgMode::xts, kDecrypt), OffloadForm::none);
  EXPECT_EQ(form(CipherMode::aes_cbc, AlgMode::cbc, kEncrypt), OffloadForm::cbc_sectors);
  EXPECT_EQ(form(CipherMode::aes_cbc, AlgMode::cbc, kDecrypt), OffloadForm::cbc_run);
  EXPECT_EQ(form(CipherMode::aes_cbc, AlgMode::ecb, kDecrypt), OffloadForm::cbc_over_ecb);
  EXPECT_EQ(form(CipherMode::aes_xts, AlgMode::cbc, kDecrypt), OffloadForm::xts_over_cbc);
  for (const Direction direction : kDirections) {
    EXPECT_EQ(form(CipherMode::aes_xts, AlgMode::ecb, direction), OffloadForm::xts_over_ecb);
    EXPECT_EQ(form(CipherMode::aes_xts, AlgMode::xts, direction), OffloadForm::xts_over_xts);
  }
}

}  // namespace
}  // namespace cryptimg::test
