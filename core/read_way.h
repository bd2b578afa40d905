// SPDX-License-Identifier: GPL-3.0-or-later
//
// ReadWay: which of two ways of reading is the faster here: deciphering out of the device's own
// memory, which saves a copy, or reading into a buffer first. The first wins where mapped pages are
// cheap to reach, and loses by half where they are not, as in some virtual machines; so it is
// measured on the reads themselves, all the time.
//
// Thread-safe, without locks; what threads measure at the same moment may be lost.
#pragma once

#include <atomic>
#include <cstdint>

namespace cryptimg {

class ReadWay {
 public:
  enum class Way : std::uint8_t { view, read };

  // The way to take next: the cheaper one, and now and then the other, so that it is known too.
  [[nodiscard]] Way choose() noexcept;
  // Tells what a way took, from the first call of the device to the last plaintext byte.
  // REQUIRES: bytes > 0.
  void note(Way way, std::uint64_t bytes, std::uint64_t took_ns) noexcept;

 private:
  // Moving averages in nanoseconds a MiB; 0: not measured yet.
  std::atomic<std::uint64_t> view_cost_{0};
  std::atomic<std::uint64_t> read_cost_{0};
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace cryptimg
