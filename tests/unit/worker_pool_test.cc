// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/worker_pool.h"

#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

namespace cryptimg {
namespace {

// Adds to a plain total per part taken; freed by whoever finishes it.
struct CountingJob : WorkerPool::Job {
  explicit CountingJob(std::uint32_t part_count) : parts(part_count), done(part_count) {}
  std::uint32_t parts;
  std::atomic<std::uint32_t> next{0};
  std::vector<unsigned> done;  // a part belongs to the thread that took its number
};

class CountingHandler final : public WorkerPool::Handler {
 public:
  static void take_parts(CountingJob& job) {
    for (std::uint32_t part = job.next++; part < job.parts; part = job.next++) {
      ++job.done[part];
    }
  }
  void work(WorkerPool::Job& job, unsigned worker) noexcept override {
    take_parts(static_cast<CountingJob&>(job));
    if (worker < 8) {
      ++joined_by[worker];
    }
  }
  void finish(WorkerPool::Job& job) noexcept override {
    const std::unique_ptr<CountingJob> mine(static_cast<CountingJob*>(&job));
    for (const unsigned times : mine->done) {
      EXPECT_EQ(times, 1U);
    }
    ++finished;
  }

  std::atomic<std::uint64_t> finished{0};
  std::array<std::atomic<std::uint64_t>, 8> joined_by{};
};

TEST(WorkerPoolTest, EachJobIsDoneOnceAndFreedByTheLast) {
  constexpr int kCallers = 3;
  constexpr int kJobs = 3000;
  CountingHandler handler;
  {
    auto pool = WorkerPool::create(3, handler);
    ASSERT_TRUE(pool);
    EXPECT_EQ((*pool)->size(), 3U);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < kCallers; ++caller) {
      callers.emplace_back([&] {
        for (int round = 0; round < kJobs; ++round) {
          auto* job = new CountingJob(static_cast<std::uint32_t>(1 + round % 9));
          (*pool)->offer(*job, job->parts);
          CountingHandler::take_parts(*job);
          if ((*pool)->leave(*job)) {
            handler.finish(*job);
          }
        }
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
  }
  EXPECT_EQ(handler.finished, static_cast<std::uint64_t>(kCallers * kJobs));
}

TEST(WorkerPoolTest, APoolMayBeEmpty) {
  CountingHandler handler;
  auto pool = WorkerPool::create(0, handler);
  ASSERT_TRUE(pool);
  auto* job = new CountingJob(3);
  (*pool)->offer(*job, 2);
  CountingHandler::take_parts(*job);
  ASSERT_TRUE((*pool)->leave(*job));
  handler.finish(*job);
  EXPECT_EQ(handler.finished, 1U);
}

TEST(WorkerPoolTest, ThreadsAreNamedAndTakeNoSignals) {
  class Looker final : public WorkerPool::Handler {
   public:
    void work(WorkerPool::Job& /*job*/, unsigned worker) noexcept override {
      std::array<char, 16> text{};
      ::pthread_getname_np(::pthread_self(), text.data(), text.size());
      name = std::string(text.data());
      expected = "cryptimg-w" + std::to_string(worker);
      sigset_t mask;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGINT) == 1 &&
                sigismember(&mask, SIGHUP) == 1 && sigismember(&mask, SIGUSR1) == 1;
      seen = true;
    }
    void finish(WorkerPool::Job& /*job*/) noexcept override {}

    std::atomic<bool> seen{false};
    bool blocked = false;
    std::string name;
    std::string expected;
  } looker;
  auto pool = WorkerPool::create(1, looker);
  ASSERT_TRUE(pool);
  sigset_t mine;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mine);
  EXPECT_EQ(sigismember(&mine, SIGTERM), 0) << "the creator's own mask is given back";
  WorkerPool::Job job;
  (*pool)->offer(job, 1);
  while (!looker.seen) {
    std::this_thread::yield();
  }
  (void)(*pool)->leave(job);
  pool->reset();
  EXPECT_EQ(looker.name, looker.expected);
  EXPECT_TRUE(looker.blocked);
}

}  // namespace
}  // namespace cryptimg
