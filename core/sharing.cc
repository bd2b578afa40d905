// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sharing.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "core/anonymous_memory.h"
#include "core/mapped_file.h"
#include "core/thread_error.h"

namespace cryptimg {
namespace {

using Clock = std::chrono::steady_clock;
using Nanoseconds = std::chrono::duration<double, std::nano>;

constexpr std::size_t kSampleBytes = 128U << 10;
constexpr std::size_t kCipherRounds = 5;
constexpr std::size_t kWakeRounds = 15;
constexpr std::chrono::milliseconds kMaxCipherTime{20};
constexpr double kWakesThatHalfIsWorth = 4;

// Median of those that were measured, at least one.
template <std::size_t N>
double median(std::array<double, N>& values, std::size_t count) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

Result<double> ns_per_byte(CipherSession& session, Direction direction, MutableBytes sample) {
  std::array<double, kCipherRounds> took{};
  std::size_t rounds = 0;
  const auto begin = Clock::now();
  while (rounds < took.size() && (rounds == 0 || Clock::now() - begin < kMaxCipherTime)) {
    const auto before = Clock::now();
    CRYPTIMG_RETURN_IF_ERROR(session.transform(direction, 0, sample, sample));
    took[rounds++] = Nanoseconds(Clock::now() - before).count();
  }
  return median(took, rounds) / static_cast<double>(sample.size());
}

// Half of there and back: both are wake-ups of a thread that sleeps.
Result<double> wake_ns() {
  // Even: the other's turn, odd: ours; counts the turns.
  std::atomic<unsigned> turn{1};
  std::thread other;
  try {
    other = std::thread([&turn] {
      block_signals();
      for (unsigned round = 0; round < kWakeRounds; ++round) {
        turn.wait(2 * round + 1);
        turn.fetch_add(1);
        turn.notify_one();
      }
    });
  } catch (const std::system_error& error) {
    return tl::unexpected(thread_error("cannot start a thread to measure with", error));
  }
  std::array<double, kWakeRounds> took{};
  for (unsigned round = 0; round < kWakeRounds; ++round) {
    // Until it sleeps again.
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const auto before = Clock::now();
    turn.fetch_add(1);
    turn.notify_one();
    turn.wait(2 * round + 2);
    took[round] = Nanoseconds(Clock::now() - before).count() / 2;
  }
  other.join();
  return median(took, took.size());
}

}  // namespace

SharingThresholds sharing_thresholds(const SharingCosts& costs) noexcept {
  const auto threshold = [&costs](double ns_per_byte) {
    constexpr double kLargest = 1U << 30;  // as good as never
    const double bytes = 2 * kWakesThatHalfIsWorth * costs.wake_ns / std::max(ns_per_byte, 1e-6);
    return static_cast<std::uint64_t>(std::clamp(bytes, 0.0, kLargest));
  };
  return {threshold(costs.decrypt_ns_per_byte), threshold(costs.encrypt_ns_per_byte)};
}

Result<SharingCosts> measure_sharing(const CipherEngine& engine, const CipherSpec& spec,
                                     const Secret& key) {
  CRYPTIMG_ASSIGN_OR_RETURN(AnonymousMemory memory, AnonymousMemory::create(kSampleBytes));
  const std::size_t sample_bytes =
      std::min<std::size_t>(kSampleBytes, engine.limits().max_bytes / 4096 * 4096);
  const MutableBytes sample = memory.bytes().first(std::max<std::size_t>(sample_bytes, 4096));
  CRYPTIMG_ASSIGN_OR_RETURN(auto session, engine.new_session(spec, key));
  SharingCosts costs;
  CRYPTIMG_ASSIGN_OR_RETURN(costs.encrypt_ns_per_byte,
                            ns_per_byte(*session, Direction::encrypt, sample));
  CRYPTIMG_ASSIGN_OR_RETURN(costs.decrypt_ns_per_byte,
                            ns_per_byte(*session, Direction::decrypt, sample));
  CRYPTIMG_ASSIGN_OR_RETURN(costs.wake_ns, wake_ns());
  return costs;
}

}  // namespace cryptimg
