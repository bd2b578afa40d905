// SPDX-License-Identifier: GPL-3.0-or-later
//
// IdleWiper: has a thread that waits by poll(2) wipe the buffers that nobody uses, at intervals
// while there is plaintext in any, and not wake up otherwise. Used by one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <unistd.h>

#include "core/buffer_pool.h"

namespace cryptimg {

class IdleWiper {
 public:
  // A buffer keeps plaintext that nobody uses for one to two of these.
  static constexpr std::chrono::milliseconds kInterval{400};

  // `pool` outlives this.
  explicit IdleWiper(BufferPool& pool) : pool_(pool) {}

  // What to wait for (POLLIN; -1: nothing), and for how long at most (-1: for ever).
  [[nodiscard]] int fd() const { return is_armed_ ? -1 : pool_.used_fd(); }
  [[nodiscard]] int wait_ms() const {
    if (!is_armed_) {
      return -1;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due_ - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  }
  // To be called after each wait, however it ended.
  void work() {
    if (is_armed_ ? Clock::now() < due_ : !is_told()) {
      return;
    }
    is_armed_ = !is_armed_ || pool_.wipe_idle();
    due_ = Clock::now() + kInterval;
  }

 private:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] bool is_told() const {
    std::uint64_t count = 0;
    return ::read(pool_.used_fd(), &count, sizeof count) == static_cast<ssize_t>(sizeof count);
  }

  BufferPool& pool_;
  bool is_armed_ = false;
  Clock::time_point due_;  // the next look, once armed
};

}  // namespace cryptimg
