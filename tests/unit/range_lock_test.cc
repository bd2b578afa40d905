// SPDX-License-Identifier: GPL-3.0-or-later
//
// Method: what is guarded in the stress tests is plain memory, so that under ThreadSanitizer every
// failure of exclusion is a reported race. Waiting is proved by a thread that has not come through
// while the range is held, which can only err on the side of passing.
#include "core/range_lock.h"

#include <atomic>
#include <chrono>
#include <future>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

using Mode = RangeLock::Mode;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr auto kMoment = std::chrono::milliseconds(20);

// Takes a range on a thread of its own and keeps it until told to let go.
class Contender {
 public:
  Contender(RangeLock& lock, std::uint64_t begin, std::uint64_t end, Mode mode)
      : thread_([this, &lock, begin, end, mode] {
          RangeLock::Hold hold = lock.acquire(begin, end, mode);
          taken_.set_value();
          let_go_.get_future().wait();
        }) {}
  ~Contender() {
    let_go();
    thread_.join();
  }
  bool has_it(std::chrono::milliseconds wait = kMoment) {
    return taken_future_.wait_for(wait) == std::future_status::ready;
  }
  bool gets_it() { return has_it(std::chrono::seconds(10)); }
  void let_go() {
    if (!told_) {
      told_ = true;
      let_go_.set_value();
    }
  }

 private:
  std::promise<void> taken_;
  std::future<void> taken_future_ = taken_.get_future();
  std::promise<void> let_go_;
  bool told_ = false;
  std::thread thread_;
};

TEST(RangeLockTest, SharedRangesOverlap) {
  RangeLock lock;
  const auto first = lock.acquire(0, 4096, Mode::shared);
  const auto second = lock.acquire(512, 8192, Mode::shared);
}

TEST(RangeLockTest, DisjointExclusiveRangesDoNotMeet) {
  RangeLock lock;
  const auto first = lock.acquire(0, 4096, Mode::exclusive);
  const auto second = lock.acquire(4096, 8192, Mode::exclusive);
  const auto same_shard = lock.acquire(64 * kMiB, 64 * kMiB + 4096, Mode::exclusive);
}

TEST(RangeLockTest, ExclusiveKeepsOthersOut) {
  RangeLock lock;
  for (const Mode other : {Mode::shared, Mode::exclusive}) {
    auto hold = lock.acquire(4096, 8192, Mode::exclusive);
    Contender contender(lock, 8191, 9000, other);
    EXPECT_FALSE(contender.has_it());
    hold.release();
    EXPECT_TRUE(contender.gets_it());
  }
}

TEST(RangeLockTest, SharedKeepsWritersOut) {
  RangeLock lock;
  auto first = lock.acquire(0, 4096, Mode::shared);
  auto second = lock.acquire(0, 4096, Mode::shared);
  Contender writer(lock, 0, 1, Mode::exclusive);
  first.release();
  EXPECT_FALSE(writer.has_it());
  second.release();
  EXPECT_TRUE(writer.gets_it());
}

TEST(RangeLockTest, AWriterIsNotOvertakenByReaders) {
  RangeLock lock;
  auto reading = lock.acquire(0, 4096, Mode::shared);
  Contender writer(lock, 0, 8192, Mode::exclusive);
  ASSERT_FALSE(writer.has_it());
  Contender late_reader(lock, 0, 512, Mode::shared);
  Contender elsewhere(lock, 8192, 9000, Mode::shared);
  EXPECT_TRUE(elsewhere.gets_it());
  EXPECT_FALSE(late_reader.has_it());
  reading.release();
  ASSERT_TRUE(writer.gets_it());
  EXPECT_FALSE(late_reader.has_it());
  writer.let_go();
  EXPECT_TRUE(late_reader.gets_it());
}

TEST(RangeLockTest, AWaiterInTheMiddleLetsOthersPastIt) {
  RangeLock lock;
  auto low = lock.acquire(0, 100, Mode::exclusive);
  auto high = lock.acquire(200, 300, Mode::exclusive);
  Contender wants_low(lock, 50, 150, Mode::exclusive);
  ASSERT_FALSE(wants_low.has_it());
  Contender wants_high(lock, 250, 350, Mode::exclusive);
  ASSERT_FALSE(wants_high.has_it());
  high.release();
  EXPECT_TRUE(wants_high.gets_it());
  EXPECT_FALSE(wants_low.has_it());
  low.release();
  EXPECT_TRUE(wants_low.gets_it());
}

TEST(RangeLockTest, AHoldMayBeReleasedByAnotherThread) {
  RangeLock lock;
  RangeLock::Hold hold = lock.acquire(0, 4096, Mode::exclusive);
  std::thread([moved = std::move(hold)]() mutable { moved.release(); }).join();
  const auto again = lock.acquire(0, 4096, Mode::exclusive);
}

TEST(RangeLockTest, MovingAHoldMovesTheDuty) {
  RangeLock lock;
  RangeLock::Hold first = lock.acquire(0, 10, Mode::exclusive);
  RangeLock::Hold second = lock.acquire(10, 20, Mode::exclusive);
  second = std::move(first);
  Contender freed(lock, 10, 20, Mode::exclusive);
  EXPECT_TRUE(freed.gets_it());
  Contender kept(lock, 0, 10, Mode::exclusive);
  EXPECT_FALSE(kept.has_it());
  second.release();
  second.release();
  EXPECT_TRUE(kept.gets_it());
}

TEST(RangeLockTest, RangesOverManyStripesMeetInEachOfThem) {
  RangeLock lock;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> wide = {
      {0, 64 * kMiB},                     // every shard once
      {10 * kMiB, 10 * kMiB + 1},         // one
      {60 * kMiB, 70 * kMiB},             // wraps
      {5 * kMiB - 1, 5 * kMiB + 1},       // a border
      {3 * kMiB, 500 * kMiB},             // more than all
      {63 * kMiB, 64 * kMiB + 63 * kMiB}  // all, wrapped
  };
  for (const auto& [begin, end] : wide) {
    auto hold = lock.acquire(begin, end, Mode::exclusive);
    for (const std::uint64_t at : {begin, begin + (end - begin) / 2, end - 1}) {
      Contender contender(lock, at, at + 1, Mode::shared);
      EXPECT_FALSE(contender.has_it(std::chrono::milliseconds(2)));
      hold.release();
      EXPECT_TRUE(contender.gets_it());
      contender.let_go();
      hold = lock.acquire(begin, end, Mode::exclusive);
    }
    const auto before =
        begin > 0 ? lock.acquire(begin - 1, begin, Mode::exclusive) : RangeLock::Hold();
    const auto after = lock.acquire(end, end + 1, Mode::exclusive);
  }
}

// Writers add to plain counters, one per block; readers look at them. Lost updates, or a reported
// race, would be a failure of exclusion; not ending would be a deadlock.
TEST(RangeLockTest, StressNeitherLosesUpdatesNorDeadlocks) {
  constexpr std::uint64_t kBlocks = 256;
  constexpr std::uint64_t kBlockBytes = kMiB / 2;  // ranges cross stripes and all shards
  constexpr int kRounds = 1500;
  RangeLock lock;
  std::vector<std::uint64_t> counters(kBlocks);
  std::atomic<std::uint64_t> added{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      std::uint64_t sum = 0;
      for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t widest = random() % 16 == 0 ? kBlocks : 6;
        const std::uint64_t first = random() % kBlocks;
        const std::uint64_t count = 1 + random() % std::min(widest, kBlocks - first);
        const Mode mode = random() % 2 == 0 ? Mode::shared : Mode::exclusive;
        const auto hold = lock.acquire(first * kBlockBytes, (first + count) * kBlockBytes, mode);
        for (std::uint64_t block = first; block < first + count; ++block) {
          if (mode == Mode::exclusive) {
            ++counters[block];
            ++added;
          } else {
            sum += counters[block];
          }
        }
      }
      EXPECT_LE(sum, kBlocks * kRounds * added.load());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::uint64_t total = 0;
  for (const std::uint64_t counter : counters) {
    total += counter;
  }
  EXPECT_EQ(total, added.load());
}

}  // namespace
}  // namespace cryptimg
