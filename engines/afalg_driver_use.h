// SPDX-License-Identifier: GPL-3.0-or-later
//
// AfalgDriverUse: what the sessions of one afalg engine share: the helper and its lanes, whether
// the driver is still trusted, and the counters. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/key_digest.h"
#include "engines/afalg_engine.h"
#include "engines/afalg_helper.h"

namespace cryptimg {

class AfalgDriverUse {
 public:
  // The driver's cipher with a key, shared by all sessions with that key: hardware may have few
  // slots for keys. Closed when destroyed, before the AfalgDriverUse it came from.
  class KeyedDriver {
   public:
    KeyedDriver(AfalgHelper& helper, AfalgHelper::Transform transform)
        : helper_(helper), transform_(transform) {}
    ~KeyedDriver() { helper_.close(transform_.number); }
    KeyedDriver(const KeyedDriver&) = delete;
    KeyedDriver& operator=(const KeyedDriver&) = delete;
    [[nodiscard]] std::uint32_t number() const { return transform_.number; }
    [[nodiscard]] std::size_t max_bytes() const { return transform_.max_bytes; }

   private:
    AfalgHelper& helper_;
    const AfalgHelper::Transform transform_;
  };

  AfalgDriverUse(std::shared_ptr<const AlgKernel> kernel, AfalgOptions options)
      : options_(std::move(options)), kernel_(std::move(kernel)) {}

  [[nodiscard]] const AfalgOptions& options() const { return options_; }

  // Opens the driver with a key, or takes the one that is open with it. The first call starts the
  // helper. unavailable where the driver, or the helper, is of no use.
  Result<std::shared_ptr<KeyedDriver>> open(const std::string& driver, Bytes key);
  // REQUIRES: open() succeeded once.
  [[nodiscard]] AfalgHelper& helper() const noexcept { return *helper_; }

  // Up to `wanted` lanes, at least one, waiting for it. Empty once the driver is given up. Does not
  // allocate: `lanes` has room for options().lanes.
  void take_lanes(unsigned wanted, std::vector<unsigned>& lanes) noexcept;
  // Those the kernel may still write to are not given back.
  void give_back(unsigned lane) noexcept;

  [[nodiscard]] bool is_given_up() const noexcept {
    return counters_.quarantines.load(std::memory_order_acquire) != 0;
  }
  // How long an operation that begins now may take.
  [[nodiscard]] std::chrono::milliseconds patience() const noexcept;
  // Gives the driver up, telling `reason` if it was not given up before.
  void give_up(const std::string& reason) noexcept;

  // A piece was done by the driver, in so many operations.
  void count_success(std::uint64_t operations, std::uint64_t bytes) noexcept;
  // A piece failed with this errno and is redone in software. Gives the driver up after too many in
  // a row, or where it will never answer.
  void count_failure(int os_errno) noexcept;
  void count_software(std::uint64_t bytes) noexcept {
    counters_.software_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  // The number of the next piece, from 0.
  std::uint64_t next_piece() noexcept { return pieces_.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] DriverCounters counters() const noexcept;

 private:
  struct LiveCounters {
    std::atomic<std::uint64_t> operations{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> software_bytes{0};
    std::atomic<std::uint64_t> fallbacks{0};
    std::atomic<std::uint64_t> quarantines{0};
  };

  const AfalgOptions options_;
  const std::shared_ptr<const AlgKernel> kernel_;
  LiveCounters counters_;
  std::atomic<std::uint64_t> pieces_{0};
  std::atomic<unsigned> failures_in_a_row_{0};

  std::mutex mutex_;
  std::condition_variable lane_is_free_;
  std::unique_ptr<AfalgHelper> helper_;  // guarded by mutex_; constant once made
  std::vector<unsigned> free_lanes_;     // guarded by mutex_
  std::weak_ptr<KeyedDriver> last_;      // guarded by mutex_: opened last
  KeyDigest last_key_;                   // guarded by mutex_: of it
};

}  // namespace cryptimg
