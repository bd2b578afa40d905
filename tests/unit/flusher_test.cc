// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/flusher.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/faulty_device.h"
#include "tests/support/memory_device.h"

namespace cryptimg::test {
namespace {

using Call = FaultyDevice::Call;
using Fault = FaultyDevice::Fault;

class FlusherTest : public ::testing::Test {
 protected:
  FaultyDevice device_{std::make_unique<MemoryDevice>(4096)};
  Flusher flusher_{device_};
};

TEST_F(FlusherTest, SequencesSayWhatIsFlushed) {
  EXPECT_TRUE(flusher_.flush_if_dirty());
  EXPECT_EQ(device_.calls(Call::flush), 0U);
  EXPECT_EQ(flusher_.note_write(), 1U);
  EXPECT_EQ(flusher_.note_write(), 2U);
  EXPECT_EQ(flusher_.flushed_sequence(), 0U);
  EXPECT_TRUE(flusher_.flush_if_dirty());
  EXPECT_EQ(flusher_.flushed_sequence(), 2U);
  EXPECT_TRUE(flusher_.flush_if_dirty());
  EXPECT_EQ(device_.calls(Call::flush), 1U);
  EXPECT_TRUE(flusher_.flush());
  EXPECT_EQ(device_.calls(Call::flush), 2U);
}

TEST_F(FlusherTest, AWriteDuringAFlushIsNotCovered) {
  device_.set(Call::flush, Fault::stall, 1);
  flusher_.note_write();
  auto flushing = std::async(std::launch::async, [this] { return flusher_.flush(); });
  device_.wait_until_stalled();
  EXPECT_EQ(flusher_.note_write(), 2U);
  EXPECT_TRUE(flusher_.state()) << "answers while a flush is stuck";
  device_.release();
  EXPECT_TRUE(flushing.get());
  EXPECT_EQ(flusher_.flushed_sequence(), 1U);
}

// The first flush stalls; those that come meanwhile share the one after it. A thread that starts
// late flushes for itself, so not every round has to show it.
TEST_F(FlusherTest, WaitingFlushesShareOne) {
  constexpr int kOthers = 4;
  bool shared = false;
  for (int round = 0; round < 50 && !shared; ++round) {
    device_.set(Call::flush, Fault::stall, 1);
    auto first = std::async(std::launch::async, [this] { return flusher_.flush(); });
    device_.wait_until_stalled();
    std::vector<std::future<Status>> others;
    for (int index = 0; index < kOthers; ++index) {
      others.push_back(std::async(std::launch::async, [this] { return flusher_.flush(); }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(device_.calls(Call::flush), 1U);
    device_.release();
    EXPECT_TRUE(first.get());
    for (auto& other : others) {
      EXPECT_TRUE(other.get());
    }
    EXPECT_GE(device_.calls(Call::flush), 2U);
    shared = device_.calls(Call::flush) < 1 + kOthers;
  }
  EXPECT_TRUE(shared);
}

// The kernel tells only one of several concurrent fdatasyncs of an error.
TEST_F(FlusherTest, AFlushThatWaitsForAFailingOneFailsToo) {
  device_.set(Call::flush, Fault::stall, 1);
  auto first = std::async(std::launch::async, [this] { return flusher_.flush(); });
  device_.wait_until_stalled();
  auto second = std::async(std::launch::async, [this] { return flusher_.flush(); });
  auto third = std::async(std::launch::async, [this] { return flusher_.flush(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  device_.set(Call::flush, Fault::error, 1, ENOSPC);
  device_.release();
  EXPECT_TRUE(first.get());
  EXPECT_EQ(second.get().error().code, Errc::no_space);
  EXPECT_EQ(third.get().error().code, Errc::no_space);
  EXPECT_EQ(flusher_.failures(), 1U);
}

}  // namespace
}  // namespace cryptimg::test
