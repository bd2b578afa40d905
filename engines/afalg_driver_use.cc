// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/afalg_driver_use.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

namespace cryptimg {

Result<std::shared_ptr<AfalgDriverUse::KeyedDriver>> AfalgDriverUse::open(const std::string& driver,
                                                                          Bytes key) {
  const std::lock_guard lock(mutex_);
  if (auto open = last_.lock(); open != nullptr && last_key_.matches(key)) {
    return open;
  }
  if (helper_ == nullptr) {
    CRYPTIMG_ASSIGN_OR_RETURN(helper_,
                              AfalgHelper::start(kernel_, options_.lanes, options_.patience));
    free_lanes_.reserve(helper_->lanes());
    for (unsigned lane = 0; lane < helper_->lanes(); ++lane) {
      free_lanes_.push_back(lane);
    }
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const AfalgHelper::Transform transform, helper_->open(driver, key));
  auto keyed = std::make_shared<KeyedDriver>(*helper_, transform);
  last_ = keyed;
  last_key_ = KeyDigest(key);
  return keyed;
}

void AfalgDriverUse::take_lanes(unsigned wanted, std::vector<unsigned>& lanes) noexcept {
  std::unique_lock lock(mutex_);
  lane_is_free_.wait(lock, [this] { return !free_lanes_.empty() || is_given_up(); });
  if (is_given_up()) {
    return;
  }
  while (lanes.size() < wanted && !free_lanes_.empty()) {
    lanes.push_back(free_lanes_.back());
    free_lanes_.pop_back();
  }
}

void AfalgDriverUse::give_back(unsigned lane) noexcept {
  {
    const std::lock_guard lock(mutex_);
    free_lanes_.push_back(lane);
  }
  lane_is_free_.notify_one();
}

void AfalgDriverUse::give_up(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (counters_.quarantines.exchange(1, std::memory_order_acq_rel) != 0) {
      return;
    }
  }
  lane_is_free_.notify_all();
  try {
    if (options_.on_warning) {
      options_.on_warning("the engine afalg is given up, the CPU does its work from now on: " +
                          reason);
    }
  } catch (const std::exception&) {
    // What could not be said is still counted.
  }
}

std::chrono::milliseconds AfalgDriverUse::patience() const noexcept {
  const bool is_on_trial =
      options_.on_trial != nullptr && options_.on_trial->load(std::memory_order_relaxed);
  return is_on_trial ? std::min(options_.patience, options_.trial_patience) : options_.patience;
}

void AfalgDriverUse::count_success(std::uint64_t operations, std::uint64_t bytes) noexcept {
  counters_.operations.fetch_add(operations, std::memory_order_relaxed);
  counters_.bytes.fetch_add(bytes, std::memory_order_relaxed);
  failures_in_a_row_.store(0, std::memory_order_relaxed);
}

void AfalgDriverUse::count_failure(int os_errno) noexcept {
  counters_.fallbacks.fetch_add(1, std::memory_order_relaxed);
  const unsigned failures = failures_in_a_row_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (os_errno == ETIMEDOUT) {
    give_up("an operation did not end within " + std::to_string(patience().count()) +
            " milliseconds");
  } else if (os_errno == EPIPE) {
    give_up("its helper process is gone");
  } else if (failures >= options_.max_failures) {
    give_up(std::to_string(failures) + " operations in a row failed, the last with \"" +
            std::strerror(os_errno) + "\"");
  }
}

DriverCounters AfalgDriverUse::counters() const noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {counters_.operations.load(kRelaxed), counters_.bytes.load(kRelaxed),
          counters_.software_bytes.load(kRelaxed), counters_.fallbacks.load(kRelaxed),
          counters_.quarantines.load(kRelaxed)};
}

}  // namespace cryptimg
