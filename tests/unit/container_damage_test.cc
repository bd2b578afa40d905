// SPDX-License-Identifier: GPL-3.0-or-later
//
// Damaged containers: every byte of the headers flipped in turn, copies wiped, keyslots broken, the
// file cut at every interesting length. Each ends with the right key, through the good copy, or in
// a clear refusal; never with another key, a crash, or a changed byte. With CRYPTIMG_SOAK set all
// bytes are flipped in several ways; without it some of the padding is left out.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/container.h"
#include "core/container_file.h"
#include "core/unique_fd.h"
#include "tests/support/container_fixture.h"
#include "tests/support/luks2_edit.h"

namespace cryptimg {
namespace {

using testing::kPassphrase;
using testing::read_file;
using testing::run_command;
using testing::seal_luks2_header;
using testing::secret_of;
using testing::write_file;

constexpr std::size_t kBinaryHeader = 4096;
constexpr std::size_t kHeaderCopy = 16384;
constexpr std::size_t kFields = 512;  // of the binary header; behind them is padding
constexpr std::size_t kKeyslots = 2 * kHeaderCopy;
constexpr std::size_t kKeyslotUsed = 256000;  // 4000 stripes of a 64-byte key
constexpr std::size_t kImage = std::size_t{32} << 10;
constexpr std::size_t kLuks1Header = 592;
// A KDF that asks for more is a matter of patience, not of damage.
constexpr std::uint32_t kMostIterations = 1'000'000;

bool soak() {
  return std::getenv("CRYPTIMG_SOAK") != nullptr;
}

char flipped(char byte, unsigned mask) {
  return static_cast<char>(static_cast<unsigned char>(byte) ^ mask);
}

class ContainerDamage : public testing::ContainerFixture {
 protected:
  enum class Outcome { served, refused, locked };

  void make(const std::string& type) {
    data_ = type == "luks2" ? std::size_t{1} << 20 : std::size_t{2} << 20;
    std::vector<std::string> arguments = {"--offset", std::to_string(data_ / 512)};
    if (type == "luks2") {
      arguments.insert(arguments.end(), {"--sector-size", "4096", "--luks2-keyslots-size", "512k"});
    }
    ASSERT_NO_FATAL_FAILURE(format(arguments, type, data_ + kImage));
    pristine_ = read_file(path());
    ASSERT_EQ(pristine_.size(), data_ + kImage);
    file_.reset(::memfd_create("container", MFD_CLOEXEC));
    ASSERT_TRUE(file_.valid());
    name_ = proc_path(file_.get());
    put(pristine_);
    Result<Container> container = Container::open({name_, {}, true});
    key_ = our_key(container);
    ASSERT_FALSE(key_.empty());
    if (type == "luks2") {
      json_end_ = pristine_.find('\0', kBinaryHeader);
      ASSERT_TRUE(json_end_ > kBinaryHeader + 500 && json_end_ < kHeaderCopy);
    }
  }

  // Puts `content` into the container's file. That lies in memory: libcryptsetup reads with
  // O_DIRECT, and each time a disk would have to take the change first.
  void put(const std::string& content) {
    ASSERT_EQ(::pwrite(file_.get(), content.data(), content.size(), 0),
              static_cast<ssize_t>(content.size()));
    ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(content.size())), 0);
  }

  [[nodiscard]] bool file_is(const std::string& content) const {
    std::string now(content.size() + 1, '\0');
    const ssize_t size = ::pread(file_.get(), now.data(), now.size(), 0);
    return size == static_cast<ssize_t>(content.size()) &&
           now.compare(0, content.size(), content) == 0;
  }

  static void expect_clear(const Error& error, const std::string& what) {
    EXPECT_TRUE(error.code == Errc::corrupt || error.code == Errc::unsupported)
        << what << ": code " << static_cast<int>(error.code) << ", " << error.message;
    expect_sentence(error, what);
  }
  static void expect_sentence(const Error& error, const std::string& what) {
    EXPECT_TRUE(error.message.size() > 10 && error.message.size() < 1000 &&
                error.message.find_first_of("\n\r\x1b") == std::string::npos &&
                error.message.back() != '.')
        << what << ": " << error.message;
  }

  // What becomes of the container with this content: for `info`, a reader, and a writer.
  Outcome outcome(const std::string& content, const std::string& what) {
    put(content);
    const Result<ContainerInfo> info = Container::inspect({name_, {}, true});
    if (!info) {
      expect_clear(info.error(), what);
    }
    const Outcome reader = outcome_of(true, what);
    const Result<Container> writer = Container::open({name_, {}, false});
    if (!writer) {
      expect_clear(writer.error(), what);
    }
    EXPECT_TRUE(reader != Outcome::refused || !writer) << what << ": served to writers only";
    EXPECT_TRUE(file_is(content)) << what << ": the file was changed";
    return reader;
  }

  Outcome outcome_of(bool read_only, const std::string& what) {
    Result<Container> container = Container::open({name_, {}, read_only});
    if (!container) {
      expect_clear(container.error(), what);
      return Outcome::refused;
    }
    const auto& slots = container->info().keyslots;
    if (std::any_of(slots.begin(), slots.end(),
                    [](const KeyslotInfo& slot) { return slot.iterations > kMostIterations; })) {
      return Outcome::locked;
    }
    const Result<Secret> key = container->unlock(secret_of(kPassphrase), std::nullopt);
    if (!key) {
      expect_sentence(key.error(), what);
      return Outcome::locked;
    }
    EXPECT_TRUE(std::string(key->chars(), key->size()) == key_) << what << ": another key";
    return Outcome::served;
  }

  // The bytes of a header copy to flip: fields and JSON densely, padding here and there.
  [[nodiscard]] std::vector<std::size_t> header_bytes() const {
    std::vector<std::size_t> bytes;
    for (std::size_t byte = 0; byte < kHeaderCopy; ++byte) {
      const bool is_field = byte < kFields;
      const bool is_json = byte >= kBinaryHeader && byte < json_end_;
      const std::size_t step = soak() || is_field ? 1 : is_json ? 3 : 251;
      if (byte % step == 0) {
        bytes.push_back(byte);
      }
    }
    return bytes;
  }
  // The ways to flip byte number `byte`.
  static std::vector<unsigned> masks(std::size_t byte) {
    return soak() ? std::vector<unsigned>{1, 2, 0x20, 0x80, 0xff}
                  : std::vector<unsigned>{1U << byte % 8};
  }

  // Flips each byte of the copy that begins at `start`: the other copy must serve.
  void flip_each_byte_of_copy(std::size_t start) {
    for (const std::size_t byte : header_bytes()) {
      for (const unsigned mask : masks(byte)) {
        std::string content = pristine_;
        content[start + byte] = flipped(content[start + byte], mask);
        const std::string what = "byte " + std::to_string(start + byte) + " ^ " + hex(mask);
        // A version of its own is no damage: there may be a LUKS3.
        const bool is_version = start == 0 && is_version_byte(byte);
        EXPECT_EQ(outcome(content, what), is_version ? Outcome::refused : Outcome::served) << what;
      }
    }
  }

  static bool is_version_byte(std::size_t byte) { return byte == 6 || byte == 7; }
  static std::string hex(unsigned mask) {
    constexpr const char* kDigits = "0123456789abcdef";
    return {'0', 'x', kDigits[mask >> 4], kDigits[mask & 15]};
  }

  std::string pristine_;
  std::string key_;
  std::size_t data_ = 0;  // where the data begins
  std::size_t json_end_ = 0;
  UniqueFd file_;
  std::string name_;  // a path to file_
};

TEST_F(ContainerDamage, EachByteOfTheFirstHeader) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  flip_each_byte_of_copy(0);
}

TEST_F(ContainerDamage, EachByteOfTheSecondHeader) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  flip_each_byte_of_copy(kHeaderCopy);
}

TEST_F(ContainerDamage, TheSameByteOfBothHeaders) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  for (const std::size_t byte : header_bytes()) {
    std::string content = pristine_;
    for (const std::size_t copy : {std::size_t{0}, kHeaderCopy}) {
      content[copy + byte] = flipped(content[copy + byte], 1U << byte % 8);
    }
    const std::string what = "byte " + std::to_string(byte) + " of both";
    // A SHA-256 leaves the second half of the checksum's field unused.
    const bool is_unused = byte >= 480 && byte < kFields;
    EXPECT_EQ(outcome(content, what), is_unused ? Outcome::served : Outcome::refused) << what;
  }
}

// As somebody would who can write to the file: the checksums are right again. What follows from it
// differs; it must not be another key, a crash or a change.
TEST_F(ContainerDamage, EachByteOfBothHeadersUnderRightChecksums) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  std::size_t outcomes[3] = {};
  for (const std::size_t byte : header_bytes()) {
    if (byte >= 448 && byte < kFields) {
      continue;  // the checksum itself
    }
    for (const unsigned mask : masks(byte)) {
      std::string content = pristine_;
      for (const std::size_t copy : {std::size_t{0}, kHeaderCopy}) {
        content[copy + byte] = flipped(content[copy + byte], mask);
        seal_luks2_header(content, copy, kHeaderCopy);
      }
      ++outcomes[static_cast<std::size_t>(
          outcome(content, "sealed byte " + std::to_string(byte) + " ^ " + hex(mask)))];
    }
  }
  for (const std::size_t count : outcomes) {
    EXPECT_GT(count, 10U);
  }
}

TEST_F(ContainerDamage, WipedHeaders) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  for (const char fill : {'\0', '\xff', 'L'}) {
    for (const std::size_t size : {std::size_t{6}, std::size_t{512}, kBinaryHeader, kHeaderCopy}) {
      std::string first = pristine_;
      first.replace(0, size, size, fill);
      EXPECT_EQ(outcome(first, "first copy wiped"), Outcome::served) << size;
      std::string second = pristine_;
      second.replace(kHeaderCopy, size, size, fill);
      EXPECT_EQ(outcome(second, "second copy wiped"), Outcome::served) << size;
      first.replace(kHeaderCopy, size, size, fill);
      EXPECT_EQ(outcome(first, "both copies wiped"), Outcome::refused) << size;
    }
  }
}

TEST_F(ContainerDamage, KeyslotArea) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  const std::size_t step = soak() ? 101 : 2503;
  for (std::size_t byte = 0; byte < kKeyslotUsed; byte += step) {
    std::string content = pristine_;
    content[kKeyslots + byte] = flipped(content[kKeyslots + byte], 1U << byte % 8);
    EXPECT_EQ(outcome(content, "keyslot area"), Outcome::locked) << byte;
  }
  std::string content = pristine_;
  content.replace(kKeyslots + kKeyslotUsed, 4096, 4096, 'x');
  EXPECT_EQ(outcome(content, "behind the keyslot"), Outcome::served);
  content.replace(kKeyslots, kKeyslotUsed, kKeyslotUsed, '\0');
  EXPECT_EQ(outcome(content, "keyslot wiped"), Outcome::locked);
}

TEST_F(ContainerDamage, AnotherKeyslotStillOpens) {
  ASSERT_NO_FATAL_FAILURE(make("luks2"));
  write_file(path("first"), std::string(kPassphrase));
  const auto added = run_command({"cryptsetup", "-q", "luksAddKey", "--key-slot", "1", "--pbkdf",
                                  "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file",
                                  path("first"), path(), path("first")});
  ASSERT_TRUE(added.ok()) << added.output;
  pristine_ = read_file(path());
  ASSERT_EQ(outcome(pristine_, "two keyslots"), Outcome::served);
  std::string content = pristine_;
  content.replace(kKeyslots, kKeyslotUsed, kKeyslotUsed, '\0');
  EXPECT_EQ(outcome(content, "the first of two wiped"), Outcome::served);
}

// LUKS1 has one header and no checksum.
TEST_F(ContainerDamage, EachByteOfALuks1Header) {
  constexpr std::size_t kDigestIterations = 164;
  ASSERT_NO_FATAL_FAILURE(make("luks1"));
  std::size_t served = 0;
  for (std::size_t byte = 0; byte < kLuks1Header; ++byte) {
    if (byte == kDigestIterations || byte == kDigestIterations + 1) {
      continue;  // thousands of millions of iterations
    }
    for (const unsigned mask : masks(byte)) {
      std::string content = pristine_;
      content[byte] = flipped(content[byte], mask);
      served += outcome(content, "byte " + std::to_string(byte)) == Outcome::served ? 1U : 0U;
    }
  }
  EXPECT_GT(served, 0U);  // the UUID, unused keyslots
}

class ContainerCut : public ContainerDamage, public ::testing::WithParamInterface<const char*> {};

TEST_P(ContainerCut, AtEveryInterestingLength) {
  ASSERT_NO_FATAL_FAILURE(make(GetParam()));
  const bool is_luks2 = GetParam() == std::string("luks2");
  const std::size_t sector = is_luks2 ? 4096 : 512;
  std::vector<std::size_t> lengths;
  for (const std::size_t edge :
       {std::size_t{0}, std::size_t{6}, std::size_t{8}, std::size_t{16}, std::size_t{112},
        std::size_t{448}, std::size_t{512}, kLuks1Header, std::size_t{1024}, kBinaryHeader,
        json_end_, kHeaderCopy, kHeaderCopy + kBinaryHeader, kHeaderCopy + json_end_, kKeyslots,
        kKeyslots + kKeyslotUsed / 2, kKeyslots + kKeyslotUsed, data_ / 2}) {
    lengths.insert(lengths.end(), {edge, edge + 1, std::max<std::size_t>(edge, 1) - 1});
  }
  for (std::size_t edge = data_; edge <= data_ + kImage; edge += sector) {
    lengths.insert(lengths.end(), {edge - 1, edge, edge + 1});
  }
  for (const std::size_t length : lengths) {
    std::string content = pristine_;
    content.resize(length, 'x');  // one is longer
    const std::string what = std::string(GetParam()) + " cut to " + std::to_string(length);
    const bool has_data = length >= data_ + sector;
    EXPECT_EQ(outcome(content, what), has_data ? Outcome::served : Outcome::refused) << what;
    if (has_data) {
      const Result<Container> container = Container::open({name_, {}, false});
      ASSERT_TRUE(container) << what;
      EXPECT_EQ(container->info().image_size_bytes, (length - data_) / sector * sector) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ContainerCut, ::testing::Values("luks1", "luks2"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace cryptimg
