// SPDX-License-Identifier: GPL-3.0-or-later
//
// An image whose keys are dropped and come back: nothing is ciphered meanwhile, and nothing that
// was read ahead is served.
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/eventually.h"
#include "tests/support/image_fixture.h"

namespace cryptimg::test {
namespace {

using Kind = IoRequest::Kind;
constexpr std::uint64_t kSize = 4U << 20;
constexpr std::chrono::seconds kPatience{20};

// An engine that opens only so many sessions.
class ShortEngine final : public CipherEngine {
 public:
  ShortEngine(FakeControl& control, unsigned sessions) : engine_(control), left_(sessions) {}
  [[nodiscard]] std::string_view name() const override { return "short"; }
  [[nodiscard]] std::string description() const override { return "opens few sessions"; }
  [[nodiscard]] Status supports(const CipherSpec& /*spec*/) const override { return {}; }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    if (left_ == 0) {
      return fail(Errc::unavailable, "no more sessions");
    }
    --left_;
    return engine_.new_session(spec, key);
  }

 private:
  const FakeEngine engine_;
  mutable unsigned left_;
};

class ImageKeysTest : public ImageTest {
 protected:
  void expect_locked() {
    const std::uint64_t transforms = control_.transforms;
    std::vector<std::byte> scratch(std::size_t{64} << 10);
    for (const Kind kind : {Kind::read, Kind::write}) {
      TestRequest request(*image_, kind, 100, 5000, filled(5000, 1));
      EXPECT_EQ(request.run(*image_).error().code, Errc::unavailable);
      EXPECT_EQ(request.completions(), 1U);
    }
    EXPECT_EQ(image_->zero(0, kSize, scratch).error().code, Errc::unavailable);
    EXPECT_TRUE(image_->flush());
    EXPECT_FALSE(image_->has_keys());
    EXPECT_EQ(control_.transforms, transforms);
  }
};

TEST_F(ImageKeysTest, NothingIsCipheredWithoutKeys) {
  make(kSize, 3, 4096);
  ASSERT_TRUE(write(1000, filled(100000, 0x5A)));
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(image_->drop_keys(kPatience));
    expect_locked();
    ASSERT_TRUE(image_->take_key(FakeEngine(control_), Secret()));
    EXPECT_TRUE(image_->has_keys());
    EXPECT_EQ(read(1000, 100000), filled(100000, 0x5A));
    ASSERT_TRUE(write(1000, filled(100000, 0x5A)));
  }
  EXPECT_GT(image_->counters().chunks_by_workers + image_->counters().chunks, 0U);
}

TEST_F(ImageKeysTest, AnEngineThatFailsLeavesItLocked) {
  make(kSize, 2, 4096, 2);
  ASSERT_TRUE(image_->drop_keys(kPatience));
  for (unsigned sessions = 0; sessions < 4; ++sessions) {
    EXPECT_FALSE(image_->take_key(ShortEngine(control_, sessions), Secret()));
    expect_locked();
  }
  ASSERT_TRUE(image_->take_key(ShortEngine(control_, 4), Secret()));
  EXPECT_EQ(read(0, 4096), filled(4096, 0));
}

TEST_F(ImageKeysTest, WhatWasReadAheadIsGone) {
  readahead_bytes_ = 2U << 20;
  make(kSize, 0);
  std::uint64_t offset = 0;
  ASSERT_TRUE(eventually([&] {
    read(offset, 128U << 10);
    offset = (offset + (128U << 10)) % kSize;
    return image_->counters().ahead_bytes > 0;
  }));
  ASSERT_TRUE(image_->drop_keys(kPatience));
  const std::uint64_t ahead_bytes = image_->counters().ahead_bytes;
  expect_locked();
  ASSERT_TRUE(image_->take_key(FakeEngine(control_), Secret()));
  EXPECT_EQ(read(offset, 4096), filled(4096, 0));
  EXPECT_EQ(image_->counters().ahead_bytes, ahead_bytes) << "deciphered before the lock";
  // And it works again.
  EXPECT_TRUE(eventually([&] {
    read(offset, 128U << 10);
    offset = (offset + (128U << 10)) % kSize;
    return image_->counters().ahead_bytes > ahead_bytes;
  }));
}

}  // namespace
}  // namespace cryptimg::test
