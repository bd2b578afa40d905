// SPDX-License-Identifier: GPL-3.0-or-later
//
// RangeLock: shared and exclusive locks on byte ranges, so that a reader racing a writer finds each
// sector old or new (pread and pwrite through the page cache are not atomic), and overlapping
// writes are ordered.
//
// Thread-safe. A Hold belongs to a request, not to a thread: it may be released by another thread
// than the one that took it. A thread may wait for a range only while holding none, which excludes
// deadlock. First come, first served among overlapping ranges, so that no writer starves.
// Sharded by range: requests far apart do not meet at one mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace cryptimg {

class RangeLock {
 public:
  enum class Mode : std::uint8_t { shared, exclusive };

  // A held range. Move-only; releases when destroyed. An empty one holds nothing.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { release(); }
    void release() noexcept;

   private:
    friend class RangeLock;
    RangeLock* lock_ = nullptr;
    std::uint64_t begin_bytes_ = 0;
    std::uint64_t end_bytes_ = 0;
    Mode mode_ = Mode::shared;
  };

  RangeLock();
  ~RangeLock();  // REQUIRES: nothing held
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  // Takes [begin, end), waiting while an overlapping range is held in a conflicting mode, or an
  // earlier waiter wants one. Does not allocate in steady state. REQUIRES: begin < end.
  [[nodiscard]] Hold acquire(std::uint64_t begin_bytes, std::uint64_t end_bytes, Mode mode);

  // How often another thread was at the same shard; waits for a range that is held not included.
  [[nodiscard]] std::uint64_t contended() const noexcept { return contended_.load(); }

 private:
  struct Shard;
  std::atomic<std::uint64_t> contended_{0};
  std::unique_ptr<Shard[]> shards_;
};

}  // namespace cryptimg
