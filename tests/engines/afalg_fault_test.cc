// SPDX-License-Identifier: GPL-3.0-or-later
//
// The afalg engine over a driver that goes wrong in every way: each costs speed, never data. What
// the driver failed at is counted, and one that hangs, lies, dies or fails on and on is given up.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "engines/afalg_engine.h"
#include "engines/engine_table.h"
#include "tests/engines/engine_cases.h"
#include "tests/support/fake_alg_kernel.h"

namespace cryptimg::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The processes that this one has forked and not yet reaped.
std::vector<pid_t> children() {
  std::vector<pid_t> processes;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "children");
    for (pid_t process = 0; file >> process;) {
      processes.push_back(process);
    }
  }
  return processes;
}

class AfalgFaults : public ::testing::Test {
 protected:
  // A driver of `mode` for `spec_`, with a session open.
  void open(AlgMode mode, AfalgOptions options = {}) {
    options.on_warning = [this](const std::string& warning) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(warning);
    };
    kernel_ = std::make_shared<FakeAlgKernel>(mode);
    engine_ = make_afalg_engine(kernel_, options);
    session_ = session_for(*engine_, spec_, key_);
    ASSERT_NE(session_, nullptr);
  }
  // In place, which is harder to redo.
  ByteVector ciphered(CipherSession& session, Direction direction) const {
    ByteVector data = data_;
    EXPECT_TRUE(session.transform(direction, 5, data, data));
    return data;
  }
  ByteVector right(Direction direction) const {
    return ciphered(*session_for(*engine_for("openssl", spec_), spec_, key_), direction);
  }
  [[nodiscard]] DriverCounters counters() const { return engine_->driver_counters(); }

  CipherSpec spec_{CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 512};
  const ByteVector key_ = random_bytes(32, 1);
  const ByteVector data_ = random_bytes(std::size_t{5} * 65536, 2);  // five pieces
  std::shared_ptr<FakeAlgKernel> kernel_;
  std::shared_ptr<const CipherEngine> engine_;
  std::unique_ptr<CipherSession> session_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;  // guarded by mutex_
};

TEST_F(AfalgFaults, WhatFailsIsRedoneAndTheNextIsTheDriversAgain) {
  for (const AlgFault fault : {AlgFault::busy, AlgFault::again, AlgFault::no_memory,
                               AlgFault::short_send, AlgFault::short_receive, AlgFault::nothing}) {
    for (const Direction direction : kDirections) {
      for (unsigned nth = 1; nth <= 5; ++nth) {
        open(AlgMode::cbc);
        kernel_->order(fault, nth);
        ASSERT_EQ(ciphered(*session_, direction), right(direction));
        EXPECT_EQ(kernel_->faults(), 1U);
        EXPECT_EQ(counters().fallbacks, 1U);
        EXPECT_EQ(counters().software_bytes + counters().bytes, data_.size());
        EXPECT_GT(counters().software_bytes, 0U);

        const std::uint64_t bytes = counters().bytes;
        ASSERT_EQ(ciphered(*session_, direction), right(direction));
        EXPECT_EQ(counters().bytes - bytes, data_.size());
        EXPECT_EQ(counters().fallbacks, 1U);
        EXPECT_EQ(counters().quarantines, 0U);
      }
    }
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(AfalgFaults, FailingOnAndOnGivesUp) {
  AfalgOptions options;
  options.max_failures = 7;
  open(AlgMode::cbc, options);
  kernel_->order(AlgFault::busy, 1, 1'000'000);
  for (int round = 0; round < 4; ++round) {
    ASSERT_EQ(ciphered(*session_, Direction::decrypt), right(Direction::decrypt));
  }
  EXPECT_EQ(counters().quarantines, 1U);
  EXPECT_GE(counters().fallbacks, 7U);
  EXPECT_LE(counters().fallbacks, 15U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("busy"), std::string::npos) << warnings_[0];
  const unsigned operations = kernel_->operations();
  ASSERT_EQ(ciphered(*session_, Direction::decrypt), right(Direction::decrypt));
  EXPECT_EQ(kernel_->operations(), operations) << "given up, and yet asked";
}

TEST_F(AfalgFaults, AHangCostsItsDeadlineOnceAndThenTheCpuWorks) {
  for (const Direction direction : kDirections) {
    for (unsigned nth = 1; nth <= 5; ++nth) {
      AfalgOptions options;
      options.patience = milliseconds(300);
      warnings_.clear();
      open(AlgMode::cbc, options);
      kernel_->order(AlgFault::hang, nth, 1'000'000);
      const auto start = Clock::now();
      for (int round = 0; round < 5; ++round) {
        ASSERT_EQ(ciphered(*session_, direction), right(direction));
      }
      EXPECT_LT(Clock::now() - start, milliseconds(3000));
      EXPECT_EQ(counters().quarantines, 1U);
      EXPECT_GE(counters().fallbacks, 1U);
      ASSERT_EQ(warnings_.size(), 1U);
      EXPECT_NE(warnings_[0].find("300 milliseconds"), std::string::npos) << warnings_[0];
      session_.reset();
      engine_.reset();
      EXPECT_TRUE(children().empty());
    }
  }
}

TEST_F(AfalgFaults, AHangUnderLoadKeepsNobodyWaiting) {
  AfalgOptions options;
  options.patience = milliseconds(300);
  options.lanes = 2;
  open(AlgMode::cbc, options);
  std::vector<std::unique_ptr<CipherSession>> sessions;
  for (int i = 0; i < 6; ++i) {
    sessions.push_back(session_for(*engine_, spec_, key_));
  }
  const ByteVector expected = right(Direction::decrypt);
  kernel_->order(AlgFault::hang, 20, 1);
  std::vector<std::thread> threads;
  threads.reserve(sessions.size());
  for (auto& own : sessions) {
    threads.emplace_back([this, &own, &expected] {
      for (int round = 0; round < 10; ++round) {
        EXPECT_EQ(ciphered(*own, Direction::decrypt), expected);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counters().quarantines, 1U);
  EXPECT_EQ(counters().bytes + counters().software_bytes, 60 * data_.size());
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(AfalgFaults, AHelperThatDiesIsNoticedAtOnce) {
  open(AlgMode::cbc);
  kernel_->order(AlgFault::die, 3);
  const auto start = Clock::now();
  ASSERT_EQ(ciphered(*session_, Direction::decrypt), right(Direction::decrypt));
  EXPECT_LT(Clock::now() - start, AfalgOptions().patience);
  EXPECT_EQ(counters().quarantines, 1U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("helper process is gone"), std::string::npos);
}

TEST_F(AfalgFaults, AHelperThatIsKilledIdleIsNoticedAtTheNextPiece) {
  open(AlgMode::cbc);
  ASSERT_EQ(ciphered(*session_, Direction::decrypt), right(Direction::decrypt));
  const auto helpers = children();
  ASSERT_EQ(helpers.size(), 1U);
  ASSERT_EQ(::kill(helpers[0], SIGKILL), 0);
  ASSERT_EQ(ciphered(*session_, Direction::decrypt), right(Direction::decrypt));
  EXPECT_EQ(counters().quarantines, 1U);
}

TEST_F(AfalgFaults, ALieThatIsSampledIsNotServed) {
  for (const AlgMode mode : {AlgMode::ecb, AlgMode::cbc}) {
    AfalgOptions options;
    options.sample_every = 1;
    warnings_.clear();
    open(mode, options);
    // Each operation is one sector of CBC: the sampled sector is the wrong one.
    ByteVector data(data_.begin(), data_.begin() + 512);
    const ByteVector source = data;
    kernel_->order(AlgFault::lie, 1, 1'000'000);
    ASSERT_TRUE(session_->transform(Direction::decrypt, 5, data, data));
    EXPECT_EQ(data, transformed(*session_for(*engine_for("openssl", spec_), spec_, key_),
                                Direction::decrypt, 5, source));
    EXPECT_EQ(counters().quarantines, 1U);
    EXPECT_EQ(counters().fallbacks, 1U);
    EXPECT_EQ(counters().bytes, 0U);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_NE(warnings_[0].find("wrong result"), std::string::npos);
  }
}

TEST_F(AfalgFaults, AnEngineThatLiesNowAndThenIsCaught) {
  open(AlgMode::cbc);
  kernel_->order(AlgFault::lie, 1, 1'000'000);
  int rounds = 0;
  while (counters().quarantines == 0 && rounds < 20'000) {
    static_cast<void>(ciphered(*session_, Direction::decrypt));
    ++rounds;
  }
  EXPECT_EQ(counters().quarantines, 1U) << "not in " << rounds << " rounds";
  ASSERT_EQ(ciphered(*session_, Direction::decrypt), right(Direction::decrypt));
}

TEST_F(AfalgFaults, WhatErrsInItsKnownAnswerTestIsNotTaken) {
  for (const AlgFault fault :
       {AlgFault::busy, AlgFault::short_receive, AlgFault::lie, AlgFault::hang, AlgFault::die}) {
    AfalgOptions options;
    options.patience = milliseconds(200);
    kernel_ = std::make_shared<FakeAlgKernel>(AlgMode::cbc);
    const auto engine = make_afalg_engine(kernel_, options);
    kernel_->order(fault, 1, 1'000'000);
    const auto made = make_engine_of({engine}, "afalg", spec_);
    ASSERT_FALSE(made) << static_cast<unsigned>(fault);
    EXPECT_EQ(made.error().code, Errc::unavailable);
    EXPECT_NE(made.error().message.find("known-answer test"), std::string::npos)
        << made.error().message;
  }
}

}  // namespace
}  // namespace cryptimg::test
