// SPDX-License-Identifier: GPL-3.0-or-later
//
// An image that reads ahead, under sequential readers and writers of versioned sectors at once: no
// read that starts after a write was acknowledged returns an older version, and no sector is torn.
// What is deciphered ahead holds no range, so the device is read while it is written, as a page
// cache may be; it is made so that this is not a data race, but tears.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_engine.h"
#include "tests/support/image_fixture.h"
#include "tests/support/memory_device.h"

namespace cryptimg::test {
namespace {

constexpr std::uint64_t kSector = 512;
constexpr std::uint64_t kWords = kSector / sizeof(std::uint64_t);
constexpr std::uint64_t kSize = 8U << 20;
constexpr std::uint64_t kSectors = kSize / kSector;

// Memory that copies word by word, each word whole. REQUIRES: offsets and sizes in words.
class TearingDevice final : public BlockDevice {
 public:
  explicit TearingDevice(std::unique_ptr<MemoryDevice> memory) : memory_(std::move(memory)) {}

  Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    for (std::size_t done = 0; done < target.size(); done += sizeof(std::uint64_t)) {
      const std::uint64_t value = __atomic_load_n(word(offset_bytes + done), __ATOMIC_RELAXED);
      std::memcpy(target.data() + done, &value, sizeof value);
    }
    return {};
  }
  Status write(std::uint64_t offset_bytes, Bytes source) noexcept override {
    for (std::size_t done = 0; done < source.size(); done += sizeof(std::uint64_t)) {
      std::uint64_t value = 0;
      std::memcpy(&value, source.data() + done, sizeof value);
      __atomic_store_n(word(offset_bytes + done), value, __ATOMIC_RELAXED);
    }
    return {};
  }
  Status flush() noexcept override { return memory_->flush(); }
  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    return memory_->allocate(offset_bytes, length_bytes);
  }
  timespec modified_time() noexcept override { return memory_->modified_time(); }

 private:
  std::uint64_t* word(std::uint64_t offset_bytes) {
    return reinterpret_cast<std::uint64_t*>(memory_->content().data() + offset_bytes);
  }

  const std::unique_ptr<MemoryDevice> memory_;
};

// A sector of a version: every word says both.
std::uint64_t tag(std::uint64_t sector, std::uint64_t version) {
  return sector << 32 | version;
}

// A read as the edge makes it: what was deciphered ahead is taken as pieces or into the buffer.
class Reading {
 public:
  Reading(EncryptedImage& image, std::uint64_t offset_bytes, std::uint64_t length_bytes,
          bool takes_pieces)
      : memory_(length_bytes) {
    request_.offset_bytes = offset_bytes;
    request_.length_bytes = length_bytes;
    request_.buffer = memory_;
    request_.takes_pieces = takes_pieces;
    request_.context = this;
    request_.completion = [](IoRequest& request, Status status) noexcept {
      static_cast<Reading*>(request.context)->complete(status.has_value());
    };
    image.submit(request_);
    eventually([this] { return done_.load(); });
  }
  [[nodiscard]] bool ok() const { return done_ && ok_; }
  [[nodiscard]] std::uint64_t word(std::uint64_t index) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data() + index * sizeof value, sizeof value);
    return value;
  }

 private:
  void complete(bool ok) {
    ok_ = ok;
    if (request_.takes_pieces) {
      std::byte* target = memory_.data();
      for (std::size_t piece = 0; piece < request_.ahead.count; ++piece) {
        const Bytes bytes = request_.ahead.pieces[piece];
        std::this_thread::yield();  // a write may come now
        std::memcpy(target, bytes.data(), bytes.size());
        target += bytes.size();
      }
    }
    done_ = true;
  }

  std::vector<std::byte> memory_;
  IoRequest request_;
  bool ok_ = false;
  std::atomic<bool> done_{false};
};

class ReadAheadThreadsTest : public ::testing::Test {
 protected:
  static constexpr unsigned kReaders = 3;
  static constexpr unsigned kWriters = 2;

  void SetUp() override {
    auto memory = std::make_unique<MemoryDevice>(kSize);
    for (std::uint64_t sector = 0; sector < kSectors; ++sector) {
      const MutableBytes target = memory->content().subspan(sector * kSector, kSector);
      fill_sector(target, sector, 0);
      fake_cipher_sector(sector, target, target);
    }
    CipherSpec spec;
    spec.sector_size_bytes = kSector;
    ImageOptions options;
    options.size_bytes = kSize;
    options.workers = 1;
    options.readahead_bytes = 4U << 20;
    options.readahead_priority = ReadAhead::Priority::normal;
    auto image = EncryptedImage::create(std::make_unique<TearingDevice>(std::move(memory)),
                                        FakeEngine(control_), spec, Secret(), options, 4);
    ASSERT_TRUE(image);
    image_ = std::move(*image);
  }
  void TearDown() override {
    image_.reset();
    EXPECT_EQ(control_.violations, 0U);
  }

  static void fill_sector(MutableBytes target, std::uint64_t sector, std::uint64_t version) {
    const std::uint64_t value = tag(sector, version);
    for (std::uint64_t word = 0; word < kWords; ++word) {
      std::memcpy(target.data() + word * sizeof value, &value, sizeof value);
    }
  }

  // From the image's start to its end, again and again. Each reader has requests of its own size.
  void read(unsigned reader) {
    constexpr std::array<std::uint64_t, kReaders> kLength{64U << 10, 128U << 10, 40U << 10};
    std::vector<std::uint64_t> at_start(kLength[reader] / kSector);
    for (std::uint64_t offset = 0; !stop_; offset = offset >= kSize ? 0 : offset) {
      const std::uint64_t length = std::min(kLength[reader], kSize - offset);
      const std::uint64_t first = offset / kSector;
      for (std::uint64_t index = 0; index < length / kSector; ++index) {
        at_start[index] = acknowledged_[first + index];
      }
      const Reading reading(*image_, offset, length, reader != 0);
      ASSERT_TRUE(reading.ok());
      for (std::uint64_t index = 0; index < length / kSector; ++index) {
        const std::uint64_t seen = reading.word(index * kWords);
        ASSERT_GE(seen, tag(first + index, at_start[index])) << "older than acknowledged";
        ASSERT_LE(seen, tag(first + index, begun_[first + index])) << "of nobody's writing";
        for (std::uint64_t word = 1; word < kWords; ++word) {
          ASSERT_EQ(reading.word(index * kWords + word), seen) << "torn";
        }
      }
      offset += length;
      position_[reader] = offset;
      std::this_thread::sleep_for(std::chrono::microseconds(300));  // the helper's turn
    }
  }

  // Just ahead of one of the readers, where chunks are ready or being filled. Every other sector of
  // two is this writer's own.
  void write(unsigned writer) {
    std::mt19937_64 random(writer);
    std::vector<std::byte> buffer(8 * kSector);
    for (std::uint64_t version = 1; !stop_; ++version) {
      const std::uint64_t ahead = random() % (768U << 10);
      const std::uint64_t offset = (position_[random() % kReaders] + ahead) % kSize;
      const std::uint64_t first =
          (offset / kSector / 16 * 16 + writer * 8) % kSectors;  // 8 sectors of 16
      for (std::uint64_t index = 0; index < 8; ++index) {
        begun_[first + index] = version;
        fill_sector(MutableBytes(buffer).subspan(index * kSector, kSector), first + index, version);
      }
      TestRequest request(*image_, IoRequest::Kind::write, first * kSector, buffer.size(), buffer);
      ASSERT_TRUE(request.run(*image_));
      for (std::uint64_t index = 0; index < 8; ++index) {
        acknowledged_[first + index] = version;
      }
      ++written_;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  FakeControl control_;
  std::unique_ptr<EncryptedImage> image_;
  std::array<std::atomic<std::uint64_t>, kSectors> begun_{};
  std::array<std::atomic<std::uint64_t>, kSectors> acknowledged_{};
  std::array<std::atomic<std::uint64_t>, kReaders> position_{};
  std::atomic<std::uint64_t> written_{0};
  std::atomic<bool> stop_{false};
};

TEST_F(ReadAheadThreadsTest, NoReadIsOlderThanAnAcknowledgedWrite) {
  std::vector<std::thread> threads;
  for (unsigned reader = 0; reader < kReaders; ++reader) {
    threads.emplace_back([this, reader] { read(reader); });
  }
  for (unsigned writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([this, writer] { write(writer); });
  }
  // Long enough to prove something, on whatever machine.
  eventually(
      [&] {
        return HasFailure() || (image_->counters().ahead_bytes > 4 * kSize && written_ > 1500);
      },
      std::chrono::seconds(6));
  stop_ = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(image_->counters().ahead_bytes, 0U) << "nothing was read ahead: nothing is proved";
  EXPECT_GT(written_, 0U);
}

}  // namespace
}  // namespace cryptimg::test
