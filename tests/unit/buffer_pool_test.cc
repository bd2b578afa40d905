// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/buffer_pool.h"

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

TEST(BufferPoolTest, ImpossibleSizesAreRefused) {
  EXPECT_EQ(BufferPool::create(0, 4096).error().code, Errc::invalid_argument);
  EXPECT_EQ(BufferPool::create(1, 0).error().code, Errc::invalid_argument);
  EXPECT_EQ(BufferPool::create(2, SIZE_MAX - 4096).error().code, Errc::invalid_argument);
  EXPECT_EQ(BufferPool::create(1, std::size_t{1} << 60).error().code, Errc::out_of_memory);
}

}  // namespace
}  // namespace cryptimg
