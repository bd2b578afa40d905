// SPDX-License-Identifier: GPL-3.0-or-later
//
// counted_lock(): takes a mutex and counts if another thread had it. What the data path shares is
// held for a few instructions, so a count that grows with the number of threads tells where a
// larger machine would queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace cryptimg {

[[nodiscard]] inline std::unique_lock<std::mutex> counted_lock(
    std::mutex& mutex, std::atomic<std::uint64_t>& contended) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock()) {
    contended.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
  }
  return lock;
}

}  // namespace cryptimg
