// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reading ahead, with a source that knows what it was asked for, can be held up in the middle, and
// can be made to serve newer content. When the helper gets a core is up to the system: the tests
// wait for what it has done, never for a time to pass.
#include "core/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/eventually.h"

namespace cryptimg::test {
namespace {

constexpr std::uint64_t kChunk = ReadAhead::kChunkBytes;
constexpr std::uint64_t kMiB = 1U << 20;

// What lies at `offset_bytes` in a version: never zero, different everywhere.
std::byte content(std::uint64_t offset_bytes, unsigned version) {
  return static_cast<std::byte>(1 + (offset_bytes * 31 + offset_bytes / 251 + version * 97) % 255);
}

std::vector<std::byte> expected(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                                unsigned version = 0) {
  std::vector<std::byte> bytes(length_bytes);
  for (std::uint64_t done = 0; done < length_bytes; ++done) {
    bytes[done] = content(offset_bytes + done, version);
  }
  return bytes;
}

class FakeSource final : public ReadAhead::Source {
 public:
  Status fill(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    std::unique_lock lock(mutex_);
    const unsigned version = version_;
    if (fills_.empty()) {
      dirty_before_ = count_dirty();
    }
    slots_.insert(target.data());
    fills_.push_back(offset_bytes);
    entered_.notify_all();
    go_on_.wait(lock, [this] { return !held_up_; });
    if (fails_) {
      return fail(Errc::io, {}, EIO);
    }
    const std::vector<std::byte> bytes = expected(offset_bytes, target.size(), version);
    std::memcpy(target.data(), bytes.data(), bytes.size());
    return {};
  }

  void hold_up(bool held_up) {
    const std::lock_guard lock(mutex_);
    held_up_ = held_up;
    go_on_.notify_all();
  }
  bool wait_until_held_up() {
    std::unique_lock lock(mutex_);
    return entered_.wait_for(lock, std::chrono::seconds(20),
                             [this] { return held_up_ && !fills_.empty(); });
  }
  void set_version(unsigned version) {
    const std::lock_guard lock(mutex_);
    version_ = version;
  }
  void set_fails(bool fails) {
    const std::lock_guard lock(mutex_);
    fails_ = fails;
  }
  std::vector<std::uint64_t> fills() {
    const std::lock_guard lock(mutex_);
    return fills_;
  }
  void forget_fills() {
    const std::lock_guard lock(mutex_);
    fills_.clear();
  }
  // How many of the chunks of memory ever filled held any plaintext when the first of
  // fills() began.
  std::size_t dirty_before_fills() {
    const std::lock_guard lock(mutex_);
    return dirty_before_;
  }

 private:
  // On the helper's thread, which nobody's write to that memory can race.
  std::size_t count_dirty() {
    return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [](auto* slot) {
      return std::any_of(slot, slot + kChunk, [](std::byte b) { return b != std::byte{0}; });
    }));
  }

  std::mutex mutex_;
  std::condition_variable entered_;
  std::condition_variable go_on_;
  unsigned version_ = 0;
  bool held_up_ = false;
  bool fails_ = false;
  std::vector<std::uint64_t> fills_;  // by offset
  std::set<std::byte*> slots_;
  std::size_t dirty_before_ = 0;
};

class ReadAheadTest : public ::testing::Test {
 protected:
  void make(std::uint64_t ring_bytes, std::uint64_t image_bytes) {
    auto ahead = ReadAhead::create(ring_bytes, image_bytes, source_, ReadAhead::Priority::normal);
    ASSERT_TRUE(ahead);
    ahead_ = std::move(*ahead);
  }
  void TearDown() override { source_.hold_up(false); }

  // As a reader does it. Returns how much was there; checks what it was.
  std::uint64_t take(std::uint64_t offset, std::uint64_t length, unsigned version = 0) {
    ReadAhead::Taken taken;
    ahead_->take(offset, length, taken);
    std::vector<std::byte> bytes;
    for (std::size_t piece = 0; piece < taken.count; ++piece) {
      bytes.insert(bytes.end(), taken.pieces[piece].begin(), taken.pieces[piece].end());
    }
    EXPECT_EQ(bytes.size(), taken.bytes);
    EXPECT_TRUE(bytes == expected(offset, taken.bytes, version)) << "at " << offset;
    const std::uint64_t got = taken.bytes;
    ahead_->release(taken);
    return got;
  }
  bool is_ready(std::uint64_t chunk, unsigned version = 0) {
    return take(chunk * kChunk, 1, version) == 1;
  }
  bool becomes_ready(std::uint64_t chunk, unsigned version = 0) {
    return eventually([&] { return is_ready(chunk, version); });
  }
  // Reads that make a stream: of chunks first to first + 1, so that first + 2 comes next. Again
  // where the helper had the lock just then, and a read went unnoticed.
  bool start_stream(std::uint64_t first) {
    source_.forget_fills();
    return eventually([&] {
      ahead_->note_read(first * kChunk, kChunk);
      ahead_->note_read((first + 1) * kChunk, kChunk);
      return eventually([&] { return !source_.fills().empty(); }, std::chrono::milliseconds(200));
    });
  }

  FakeSource source_;
  std::unique_ptr<ReadAhead> ahead_;
};

class ReadAheadShapes : public ReadAheadTest,
                        public ::testing::WithParamInterface<std::vector<std::uint64_t>> {};

TEST_P(ReadAheadShapes, ASequentialStreamIsFoundAndServed) {
  constexpr std::uint64_t kImage = 24 * kMiB + 512;
  make(4 * kMiB, kImage);
  std::uint64_t hit_bytes = 0;
  std::uint64_t offset = 0;
  for (std::size_t request = 0; offset < kImage; ++request) {
    const std::uint64_t length = std::min(GetParam()[request % GetParam().size()], kImage - offset);
    // Let the helper have its turn, but do not insist: it may do without a read it missed.
    const bool is_known = offset >= 8 * kMiB;
    // Looked at before it is taken: a part of it that was taken would not come again.
    const auto is_all_ready = [&] {
      std::uint64_t chunk = offset / kChunk;
      while (chunk * kChunk < offset + length && is_ready(chunk)) {
        ++chunk;
      }
      return chunk * kChunk >= offset + length;
    };
    eventually([&] { return !is_known || is_all_ready(); }, std::chrono::seconds(1));
    const std::uint64_t got = take(offset, length);
    ahead_->note_read(offset, length);
    hit_bytes += is_known ? got : 0;
    offset += length;
  }
  EXPECT_GT(hit_bytes, (kImage - 8 * kMiB) / 2);
  EXPECT_GE(ahead_->counters().hit_bytes, hit_bytes);
  EXPECT_GE(ahead_->counters().filled_bytes, hit_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Requests, ReadAheadShapes,
    ::testing::Values(std::vector<std::uint64_t>{4096}, std::vector<std::uint64_t>{128U << 10},
                      std::vector<std::uint64_t>{1U << 20},
                      std::vector<std::uint64_t>{761856, 524288, 282624, 4096}));

TEST_F(ReadAheadTest, TheLastChunkIsAsLongAsTheImage) {
  make(kMiB, 3 * kChunk + 512);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(becomes_ready(3));
  EXPECT_EQ(take(3 * kChunk - 100, 612), 612U);
}

TEST_F(ReadAheadTest, ClearingWaitsForAFillAndWipesAll) {
  make(kMiB, 64 * kMiB);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(becomes_ready(2));
  source_.hold_up(true);
  source_.forget_fills();
  ASSERT_TRUE(eventually([&] {
    ahead_->note_read(2 * kChunk, 3 * kChunk);
    return !source_.fills().empty();
  }));
  EXPECT_FALSE(ahead_->clear(std::chrono::milliseconds(1))) << "a fill is under way";
  source_.hold_up(false);
  ASSERT_TRUE(ahead_->clear(std::chrono::seconds(20)));
  for (std::uint64_t chunk = 0; chunk < 16; ++chunk) {
    EXPECT_FALSE(is_ready(chunk)) << chunk;
  }
  ASSERT_TRUE(start_stream(20));
  EXPECT_EQ(source_.dirty_before_fills(), 0U) << "not wiped";
  EXPECT_TRUE(becomes_ready(22));
}

TEST_F(ReadAheadTest, RandomReadsFillNothing) {
  make(4 * kMiB, 2048 * kMiB);
  std::vector<std::uint64_t> places(1024);
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
  for (const std::uint64_t place : places) {
    EXPECT_EQ(take(place * kMiB, 4096), 0U);
    ahead_->note_read(place * kMiB, 4096);
  }
  // A stream elsewhere, so that what the helper would have done before is done.
  constexpr std::uint64_t kElsewhere = 1500 * kMiB / kChunk;
  ahead_->note_read(kElsewhere * kChunk, kChunk);
  ahead_->note_read((kElsewhere + 1) * kChunk, kChunk);
  ASSERT_TRUE(becomes_ready(kElsewhere + 2));
  for (const std::uint64_t offset : source_.fills()) {
    EXPECT_GE(offset, kElsewhere * kChunk);
  }
}

TEST_F(ReadAheadTest, AWriteDropsWhatIsReadyOfItsRangeAndNoMore) {
  make(kMiB, 64 * kMiB);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(becomes_ready(2) && becomes_ready(3));
  const ByteExtent range{3 * kChunk, 512};
  ahead_->begin_write(range);
  EXPECT_FALSE(is_ready(3));
  EXPECT_TRUE(is_ready(2));
  EXPECT_EQ(take(2 * kChunk, 2 * kChunk), kChunk) << "up to the first that is not there";
  ahead_->end_write(range);
  EXPECT_FALSE(is_ready(3));
  EXPECT_EQ(ahead_->counters().dropped, 1U);
}

TEST_F(ReadAheadTest, AFillThatAWriteCrossesIsThrownAway) {
  make(kMiB, 64 * kMiB);
  source_.hold_up(true);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(source_.wait_until_held_up());
  ASSERT_EQ(source_.fills(), (std::vector<std::uint64_t>{2 * kChunk}));
  const ByteExtent range{3 * kChunk - 1, 1};
  ahead_->begin_write(range);
  source_.set_version(1);
  ahead_->end_write(range);
  source_.hold_up(false);  // and delivers the old content
  ASSERT_TRUE(becomes_ready(3, 1));
  EXPECT_FALSE(is_ready(2, 1));
  EXPECT_EQ(ahead_->counters().dropped, 1U);
}

TEST_F(ReadAheadTest, NothingIsFilledWhereAWriteIsUnderWay) {
  make(4 * kMiB, 64 * kMiB);
  const ByteExtent range{kMiB + 3 * kChunk, 4096};
  ahead_->begin_write(range);
  ASSERT_TRUE(start_stream(4));
  // What is beyond that MiB is filled: then what is in it was passed over. Noted again where the
  // helper had the lock just then.
  std::vector<std::uint64_t> fills;
  ASSERT_TRUE(eventually([&] {
    for (std::uint64_t chunk = 6; chunk < 9; ++chunk) {
      ahead_->note_read(chunk * kChunk, kChunk);
    }
    fills = source_.fills();
    return std::find(fills.begin(), fills.end(), 2 * kMiB) != fills.end();
  }));
  ahead_->end_write(range);
  for (const std::uint64_t offset : fills) {
    EXPECT_NE(offset / kMiB, 1U) << offset;
  }
}

TEST_F(ReadAheadTest, WhatIsPinnedStaysAsItWas) {
  make(4 * kChunk, 4096 * kMiB);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(becomes_ready(2));
  ReadAhead::Taken pinned;
  ahead_->take(2 * kChunk + 100, 5000, pinned);
  ASSERT_EQ(pinned.bytes, 5000U);
  const ByteExtent range{2 * kChunk, kChunk};
  ahead_->begin_write(range);
  source_.set_version(1);
  ahead_->end_write(range);
  EXPECT_FALSE(is_ready(2)) << "what is pinned and old is not given to others";
  // The ring goes round several times, whatever it may take for it.
  std::uint64_t chunk = 1000;
  ASSERT_TRUE(eventually([&] {
    ahead_->note_read(chunk * kChunk, kChunk);
    ++chunk;
    return source_.fills().size() >= 12;
  }));
  const std::vector<std::byte> now(pinned.pieces[0].begin(), pinned.pieces[0].end());
  EXPECT_EQ(now, expected(2 * kChunk + 100, 5000, 0));
  ahead_->release(pinned);
  EXPECT_EQ(pinned.count, 0U);
}

TEST_F(ReadAheadTest, ASourceThatFailsServesNothing) {
  make(kMiB, 64 * kMiB);
  source_.set_fails(true);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(eventually([&] { return source_.fills().size() >= 2; }));
  EXPECT_FALSE(is_ready(2));
  source_.set_fails(false);
  ASSERT_TRUE(start_stream(64));
  EXPECT_TRUE(becomes_ready(66));
  EXPECT_FALSE(is_ready(2));
}

// A second reader comes through the same place while what the first left is still there.
TEST_F(ReadAheadTest, ReadingTheSameAgainAndAgainUsesUpNothing) {
  make(kMiB, 64 * kMiB);
  for (int round = 0; round < 60; ++round) {
    for (std::uint64_t chunk = 0; chunk < 12; ++chunk) {
      ahead_->note_read(chunk * kChunk, kChunk);
      eventually([&] { return is_ready(chunk + 1); }, std::chrono::milliseconds(2));
    }
  }
  for (std::uint64_t first = 100; first < 200; first += 20) {
    ASSERT_TRUE(eventually([&] {
      ahead_->note_read(first * kChunk, kChunk);
      ahead_->note_read((first + 1) * kChunk, kChunk);
      return is_ready(first + 2);
    })) << "the ring is lost";
  }
}

TEST_F(ReadAheadTest, PlaintextIsWipedWhenNobodyReadsAnyMore) {
  make(kMiB, 64 * kMiB);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(becomes_ready(2) && becomes_ready(3));
  ReadAhead::Taken pinned;
  ahead_->take(3 * kChunk, 1, pinned);
  const ByteExtent range{2 * kChunk, 2 * kChunk};
  ahead_->begin_write(range);
  ahead_->end_write(range);
  ahead_->release(pinned);
  ASSERT_TRUE(eventually([&] {
    ahead_->note_read(2 * kChunk, kChunk);  // again where the helper had the lock just then
    return is_ready(4);
  }));
  ASSERT_TRUE(eventually([&] { return !is_ready(4); })) << "kept without a reader";
  ASSERT_TRUE(start_stream(100));
  ASSERT_TRUE(becomes_ready(102));
  EXPECT_EQ(source_.dirty_before_fills(), 0U);
}

TEST_F(ReadAheadTest, ItCanGoWhileItFills) {
  make(kMiB, 64 * kMiB);
  source_.hold_up(true);
  ASSERT_TRUE(start_stream(0));
  ASSERT_TRUE(source_.wait_until_held_up());
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source_.hold_up(false);
  });
  ahead_.reset();
  releaser.join();
  EXPECT_EQ(source_.fills().size(), 1U) << "it was told to go, and began another";
}

}  // namespace
}  // namespace cryptimg::test
