// SPDX-License-Identifier: GPL-3.0-or-later
//
// What one thread sees of an image: bytes, refusals, tunables, durability, zeroing.
#include "core/encrypted_image.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/image_fixture.h"

namespace cryptimg::test {
namespace {

using Kind = IoRequest::Kind;

TEST_F(ImageTest, ReadsAndWritesOfAnyRangeAgreeWithAModel) {
  constexpr std::uint64_t kSize = 1 << 18;
  for (const unsigned workers : {0U, 2U}) {
    make(kSize, workers, 8192);
    std::vector<std::byte> model(kSize);
    std::mt19937_64 random(workers);
    for (int round = 0; round < 1500; ++round) {
      const std::uint64_t offset = random() % kSize;
      const std::uint64_t limit = random() % 8 == 0 ? 65536 : 1500;
      const std::uint64_t length = 1 + random() % std::min(limit, kSize - offset);
      const auto there = model.begin() + static_cast<std::ptrdiff_t>(offset);
      if (random() % 2 == 0) {
        std::vector<std::byte> payload(length);
        std::generate(payload.begin(), payload.end(),
                      [&] { return static_cast<std::byte>(random()); });
        ASSERT_TRUE(write(offset, payload));
        std::copy(payload.begin(), payload.end(), there);
      } else {
        const std::vector<std::byte> expected(there, there + static_cast<std::ptrdiff_t>(length));
        ASSERT_EQ(read(offset, length), expected);
      }
    }
    ASSERT_EQ(read(0, kSize), model);
  }
}

TEST_F(ImageTest, WhatIsStoredIsCipheredUnderTheSectorsNumber) {
  make(65536, 2, 1024);
  const std::vector<std::byte> plain = filled(8192, 0x5A);
  ASSERT_TRUE(write(4096, plain));
  for (std::uint64_t sector = 8; sector < 24; ++sector) {
    std::array<std::byte, kSectorBytes> expected{};
    fake_cipher_sector(sector, Bytes(plain).first(kSectorBytes), expected);
    const Bytes stored = memory_->content().subspan(sector * kSectorBytes, kSectorBytes);
    ASSERT_TRUE(std::equal(stored.begin(), stored.end(), expected.begin())) << sector;
  }
}

TEST_F(ImageTest, AReadDeliversTheWholeCover) {
  make(65536, 0, 0, 1, false, 4096);
  ASSERT_TRUE(write(4096, filled(4096, 9)));
  TestRequest request(*image_, Kind::read, 5000, 10);
  ASSERT_EQ(request.buffer().size(), 4096U);
  ASSERT_TRUE(request.run(*image_));
  EXPECT_TRUE(std::all_of(request.buffer().begin(), request.buffer().end(),
                          [](std::byte byte) { return byte == std::byte{9}; }));
}

TEST_F(ImageTest, HeadAndTailOfOneSectorAreReadOnce) {
  make(65536, 0);
  ASSERT_TRUE(write(100, filled(50, 1)));
  EXPECT_EQ(device_->calls(FaultyDevice::Call::read), 1U);
  ASSERT_TRUE(write(700, filled(1000, 1)));
  EXPECT_EQ(device_->calls(FaultyDevice::Call::read), 3U);
  ASSERT_TRUE(write(1024, filled(1024, 1)));
  EXPECT_EQ(device_->calls(FaultyDevice::Call::read), 3U);
  EXPECT_EQ(image_->counters().partial_sector_writes, 2U);
}

TEST_F(ImageTest, InvalidRangesCompleteOnceWithOutOfRange) {
  make(65536, 1);
  const std::array<std::array<std::uint64_t, 2>, 5> ranges = {
      {{0, 0}, {65536, 1}, {65535, 2}, {0, 65537}, {UINT64_MAX, 1}}};
  for (const auto& [offset, length] : ranges) {
    for (const Kind kind : {Kind::read, Kind::write}) {
      TestRequest request(*image_, kind, 0, 1);
      request.request().offset_bytes = offset;
      request.request().length_bytes = length;
      EXPECT_EQ(request.run(*image_).error().code, Errc::out_of_range) << offset << "+" << length;
      EXPECT_EQ(request.completions(), 1U);
    }
  }
  TestRequest small_buffer(*image_, Kind::read, 0, 1);
  small_buffer.request().length_bytes = kSectorBytes + 1;
  EXPECT_EQ(small_buffer.run(*image_).error().code, Errc::out_of_range);
  EXPECT_EQ(memory_->writes(), 0U);
}

TEST_F(ImageTest, AReadOnlyImageRefusesEveryChange) {
  make(65536, 1, 0, 4, true);
  std::vector<std::byte> scratch(8192);
  EXPECT_EQ(write(0, filled(512, 1)).error().code, Errc::read_only);
  EXPECT_EQ(image_->zero(0, 512, scratch).error().code, Errc::read_only);
  EXPECT_EQ(image_->allocate(0, 512).error().code, Errc::read_only);
  EXPECT_EQ(read(0, 100), filled(100, 0));
  EXPECT_EQ(memory_->writes(), 0U);
}

TEST_F(ImageTest, TunablesAreRoundedToSectors) {
  make(65536, 0, 0, 1, false, 4096);
  EXPECT_EQ(image_->max_read_size_bytes(), kDefaultMaxChunkBytes);
  EXPECT_EQ(image_->max_write_size_bytes(), kDefaultMaxChunkBytes);
  EXPECT_EQ(image_->set_max_read_size(1), 4096U);
  EXPECT_EQ(image_->set_max_read_size(12287), 8192U);
  EXPECT_EQ(image_->set_max_write_size(UINT32_MAX), UINT32_MAX - 4095);
  EXPECT_EQ(image_->max_read_size_bytes(), 8192U);
  EXPECT_EQ(image_->max_write_size_bytes(), UINT32_MAX - 4095);
  EXPECT_EQ(image_->set_max_write_size(0), kDefaultMaxChunkBytes);
}

TEST_F(ImageTest, TheDefaultOfReadsIsLargerWhereTheEnginePrefersThat) {
  control_.preferred_bytes = 524288;
  make(1048576, 0);
  EXPECT_EQ(image_->max_read_size_bytes(), 524288U);
  EXPECT_EQ(image_->set_max_read_size(65536), 65536U);
  EXPECT_EQ(image_->set_max_read_size(0), 524288U);
  EXPECT_EQ(image_->max_write_size_bytes(), kDefaultMaxChunkBytes);
  EXPECT_EQ(image_->set_max_write_size(0), kDefaultMaxChunkBytes);
  read(0, 1048576);
  EXPECT_EQ(control_.transforms, 2U);
  control_.preferred_bytes = 4096;
  make(1048576, 0);
  EXPECT_EQ(image_->max_read_size_bytes(), kDefaultMaxChunkBytes);
}

TEST_F(ImageTest, ChunksFollowTheTunablesWhileMounted) {
  make(65536, 0);
  EXPECT_EQ(read(0, 65536).size(), 65536U);
  EXPECT_EQ(image_->counters().chunks, 1U);
  image_->set_max_read_size(4096);
  EXPECT_EQ(read(0, 65536).size(), 65536U);
  EXPECT_EQ(image_->counters().chunks, 17U);
  ASSERT_TRUE(write(0, filled(65536, 1)));
  EXPECT_EQ(image_->counters().chunks, 18U);
  image_->set_max_write_size(32768);
  ASSERT_TRUE(write(0, filled(65536, 1)));
  EXPECT_EQ(image_->counters().chunks, 20U);
}

TEST_F(ImageTest, TheEnginesLimitBoundsAChunk) {
  control_.max_bytes = 5000;
  make(65536, 1);
  ASSERT_TRUE(write(0, filled(65536, 3)));
  EXPECT_EQ(read(0, 65536), filled(65536, 3));
  EXPECT_EQ(image_->counters().chunks, 2 * (65536 + 4607) / 4608U);
}

TEST_F(ImageTest, CreateRefusesWhatCannotBe) {
  const auto create = [&](std::uint64_t size, std::uint32_t sector, unsigned callers) {
    CipherSpec spec;
    spec.sector_size_bytes = sector;
    ImageOptions options;
    options.size_bytes = size;
    auto image = EncryptedImage::create(std::make_unique<MemoryDevice>(65536), FakeEngine(control_),
                                        spec, Secret(), options, callers);
    return image ? Errc::io : image.error().code;
  };
  EXPECT_EQ(create(0, 512, 1), Errc::invalid_argument);
  EXPECT_EQ(create(513, 512, 1), Errc::invalid_argument);
  EXPECT_EQ(create(8192, 0, 1), Errc::invalid_argument);
  EXPECT_EQ(create(8192, 256, 1), Errc::invalid_argument);
  EXPECT_EQ(create(8192, 8192, 1), Errc::invalid_argument);
  EXPECT_EQ(create(8192, 512, 0), Errc::invalid_argument);
  control_.max_bytes = 511;
  EXPECT_EQ(create(8192, 512, 1), Errc::unsupported);
  control_.max_bytes = 512;
  control_.alignment_bytes = 64;
  EXPECT_EQ(create(8192, 512, 1), Errc::unsupported);
}

TEST_F(ImageTest, CountersSayWhatHappened) {
  make(65536, 0);
  ASSERT_TRUE(write(10, filled(100, 1)));
  EXPECT_EQ(read(5, 1000).size(), 1000U);
  ASSERT_TRUE(image_->flush());
  const ImageCounters now = image_->counters();
  EXPECT_EQ(now.writes, 1U);
  EXPECT_EQ(now.written_bytes, 100U);
  EXPECT_EQ(now.reads, 1U);
  EXPECT_EQ(now.read_bytes, 1000U);
  EXPECT_EQ(now.flushes, 1U);
  EXPECT_EQ(now.chunks_by_workers, 0U);
  EXPECT_EQ(now.read_errors + now.write_errors + now.flush_errors, 0U);
  EXPECT_EQ(image_->in_flight(), 0U);
  EXPECT_EQ(image_->workers(), 0U);
}

TEST_F(ImageTest, ADurableWriteIsFlushedBeforeItCompletes) {
  make(65536, 1);
  ASSERT_TRUE(write(0, filled(512, 1)));
  EXPECT_EQ(memory_->flushes(), 0U);
  ASSERT_TRUE(write(0, filled(512, 1), true));
  EXPECT_EQ(memory_->flushes(), 1U);
  EXPECT_EQ(image_->write_sequence(), 2U);
  EXPECT_EQ(image_->flushed_sequence(), 2U);
}

TEST_F(ImageTest, ZeroLeavesTheRestOfItsSectorsAlone) {
  constexpr std::uint64_t kSize = 65536;
  make(kSize, 1, 1024);
  std::vector<std::byte> scratch(3 * kSectorBytes + 100);
  for (const auto& [offset, length] : {std::pair<std::uint64_t, std::uint64_t>{0, kSize},
                                       {700, 10},
                                       {512, 512},
                                       {1, 40000},
                                       {kSize - 1, 1},
                                       {300, 0},
                                       {kSize, 0}}) {
    std::vector<std::byte> expected = filled(kSize, 0xAB);
    ASSERT_TRUE(write(0, expected));
    ASSERT_TRUE(image_->zero(offset, length, scratch));
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(offset), length, std::byte{});
    ASSERT_EQ(read(0, kSize), expected) << offset << "+" << length;
  }
  EXPECT_EQ(image_->zero(0, kSize + 1, scratch).error().code, Errc::out_of_range);
  EXPECT_EQ(image_->zero(0, 1, MutableBytes(scratch).first(1000)).error().code,
            Errc::invalid_argument);
}

TEST_F(ImageTest, AllocateReachesTheDeviceAndHasToBeFlushed) {
  make(65536, 0);
  ASSERT_TRUE(image_->allocate(100, 1000));
  EXPECT_EQ(memory_->allocated_bytes(), 1000U);
  EXPECT_LT(image_->flushed_sequence(), image_->write_sequence());
  ASSERT_TRUE(image_->allocate(0, 0));
  EXPECT_EQ(image_->allocate(65536, 1).error().code, Errc::out_of_range);
  EXPECT_EQ(memory_->allocated_bytes(), 1000U);
}

TEST_F(ImageTest, ModifiedTimeIsTheDevices) {
  make(65536, 0);
  const timespec before = image_->modified_time();
  ASSERT_TRUE(write(0, filled(512, 1)));
  EXPECT_GT(image_->modified_time().tv_sec, before.tv_sec);
}

TEST_F(ImageTest, ACompletionMaySubmitAgainAndFreeItsRequest) {
  make(65536, 0, 1024, 1);
  struct Chain {
    EncryptedImage& image;
    int left = 20;
    int freed = 0;
    void start() {
      auto request = std::make_unique<IoRequest>();
      auto memory = std::make_unique<std::array<std::byte, 4096>>();
      request->kind = Kind::write;
      request->length_bytes = memory->size();
      request->buffer = *memory.release();
      request->context = this;
      request->completion = [](IoRequest& done, Status status) noexcept {
        EXPECT_TRUE(status);
        Chain& chain = *static_cast<Chain*>(done.context);
        delete reinterpret_cast<std::array<std::byte, 4096>*>(done.buffer.data());
        delete &done;
        ++chain.freed;
        if (--chain.left > 0) {
          chain.start();
        }
      };
      image.submit(*request.release());
    }
  } chain{*image_};
  chain.start();
  EXPECT_EQ(chain.freed, 20);
}

}  // namespace
}  // namespace cryptimg::test
