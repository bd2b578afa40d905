// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/buffer_pool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace cryptimg {
namespace {

TEST(BufferPoolTest, BuffersAreDisjointPageAlignedAndRoundedUp) {
  auto pool = BufferPool::create(5, 5000);
  ASSERT_TRUE(pool);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ((*pool)->buffer_bytes() % page, 0U);
  EXPECT_GE((*pool)->buffer_bytes(), 5000U);
  std::vector<MutableBytes> taken;
  std::set<std::byte*> starts;
  for (int index = 0; index < 5; ++index) {
    taken.push_back((*pool)->acquire());
    EXPECT_EQ(taken.back().size(), (*pool)->buffer_bytes());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(taken.back().data()) % page, 0U);
    starts.insert(taken.back().data());
    std::memset(taken.back().data(), index, taken.back().size());
  }
  EXPECT_EQ(starts.size(), 5U);
  for (std::size_t index = 0; index < 5; ++index) {
    EXPECT_EQ(taken[index].front(), static_cast<std::byte>(index));
    EXPECT_EQ(taken[index].back(), static_cast<std::byte>(index));
    (*pool)->release(taken[index]);
  }
}

TEST(BufferPoolTest, AcquireWaitsUntilABufferIsFree) {
  auto pool = BufferPool::create(1, 4096);
  ASSERT_TRUE(pool);
  const MutableBytes only = (*pool)->acquire();
  auto waiting = std::async(std::launch::async, [&] { return (*pool)->acquire(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  (*pool)->release(only);
  const MutableBytes got = waiting.get();
  EXPECT_EQ(got.data(), only.data());
  (*pool)->release(got);
}

TEST(BufferPoolTest, NoBufferHasTwoOwners) {
  auto pool = BufferPool::create(3, 4096);
  ASSERT_TRUE(pool);
  std::vector<std::thread> threads;
  for (int id = 1; id <= 6; ++id) {
    threads.emplace_back([&, id] {
      for (int round = 0; round < 2000; ++round) {
        const MutableBytes buffer = (*pool)->acquire();
        buffer.front() = static_cast<std::byte>(id);
        EXPECT_EQ(buffer.front(), static_cast<std::byte>(id));
        (*pool)->release(buffer);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

bool is_told(const BufferPool& pool) {
  std::uint64_t count = 0;
  return ::read(pool.used_fd(), &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

bool holds(Bytes buffer, std::byte value) {
  return std::all_of(buffer.begin(), buffer.end(), [value](std::byte b) { return b == value; });
}

MutableBytes acquire_filled(BufferPool& pool, std::byte value) {
  const MutableBytes buffer = pool.acquire();
  std::fill(buffer.begin(), buffer.end(), value);
  return buffer;
}

TEST(BufferPoolTest, WhatLiesIdleForTwoRoundsIsWiped) {
  const auto pool = std::move(BufferPool::create(3, 4096).value());
  EXPECT_FALSE(is_told(*pool));
  const MutableBytes first = acquire_filled(*pool, std::byte{1});
  const MutableBytes second = acquire_filled(*pool, std::byte{2});
  pool->release(first);
  EXPECT_TRUE(is_told(*pool));
  EXPECT_TRUE(pool->wipe_idle());
  EXPECT_TRUE(holds(first, std::byte{1})) << "it was used since the call before";
  pool->release(second);
  EXPECT_FALSE(is_told(*pool)) << "told once until all is wiped";
  EXPECT_TRUE(pool->wipe_idle());
  EXPECT_TRUE(holds(first, std::byte{0}));
  EXPECT_TRUE(holds(second, std::byte{2}));
  EXPECT_FALSE(pool->wipe_idle());
  EXPECT_TRUE(holds(second, std::byte{0}));
  // The next one is told again, and nothing was lost.
  for (const MutableBytes buffer : {pool->acquire(), pool->acquire(), pool->acquire()}) {
    pool->release(buffer);
  }
  EXPECT_TRUE(is_told(*pool));
}

TEST(BufferPoolTest, TheHotBufferIsNotWiped) {
  const auto pool = std::move(BufferPool::create(2, 4096).value());
  for (int round = 0; round < 5; ++round) {
    const MutableBytes hot = acquire_filled(*pool, std::byte{7});
    pool->release(hot);
    EXPECT_TRUE(pool->wipe_idle());
    EXPECT_TRUE(holds(hot, std::byte{7}));
  }
}

TEST(BufferPoolTest, CleanBuffersHaveNoPlaintext) {
  const auto pool = std::move(BufferPool::create(2, 4096).value());
  const MutableBytes used = acquire_filled(*pool, std::byte{3});
  pool->release(used);
  // There is another, though it is not the one released last.
  const MutableBytes other = pool->acquire_clean();
  EXPECT_NE(other.data(), used.data());
  EXPECT_TRUE(holds(used, std::byte{3}));
  const MutableBytes wiped = pool->acquire_clean();
  EXPECT_EQ(wiped.data(), used.data());
  EXPECT_TRUE(holds(wiped, std::byte{0}));
  // What was said to be clean is taken for it.
  std::fill(wiped.begin(), wiped.end(), std::byte{4});
  pool->release_clean(wiped);
  EXPECT_FALSE(pool->wipe_idle());
  const MutableBytes again = pool->acquire_clean();
  EXPECT_TRUE(holds(again, std::byte{4}));
  pool->release(again);
  pool->release(other);
  pool->wipe_free();
  EXPECT_TRUE(holds(again, std::byte{0}));
}

TEST(BufferPoolTest, WipingAndUsersDoNotMeet) {
  const auto pool = std::move(BufferPool::create(3, 4096).value());
  std::atomic<bool> stop{false};
  std::thread wiper([&] {
    while (!stop) {
      pool->wipe_idle();
      pool->wipe_free();
    }
  });
  std::vector<std::thread> users;
  for (int id = 1; id <= 4; ++id) {
    users.emplace_back([&, id] {
      for (int round = 0; round < 1000; ++round) {
        const bool clean = round % 3 == 0;
        const MutableBytes buffer = clean ? pool->acquire_clean() : pool->acquire();
        EXPECT_TRUE(!clean || holds(buffer, std::byte{0}));
        std::fill(buffer.begin(), buffer.end(), static_cast<std::byte>(id));
        EXPECT_TRUE(holds(buffer, static_cast<std::byte>(id)));
        pool->release(buffer);
      }
    });
  }
  for (std::thread& user : users) {
    user.join();
  }
  stop = true;
  wiper.join();
}

TEST(BufferPoolTest, ImpossibleSizesAreRefused) {
  EXPECT_EQ(BufferPool::create(0, 4096).error().code, Errc::invalid_argument);
  EXPECT_EQ(BufferPool::create(1, 0).error().code, Errc::invalid_argument);
  EXPECT_EQ(BufferPool::create(2, SIZE_MAX - 4096).error().code, Errc::invalid_argument);
  EXPECT_EQ(BufferPool::create(1, std::size_t{1} << 60).error().code, Errc::out_of_memory);
}

}  // namespace
}  // namespace cryptimg
