// SPDX-License-Identifier: GPL-3.0-or-later
//
// BufferPool: a fixed number of page-aligned buffers made at mount, so that memory is bounded
// whatever the load and no request allocates. When it is empty, acquire() waits: back-pressure.
// Thread-safe. The memory is out of core dumps, and zeroed when the pool is destroyed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "core/anonymous_memory.h"
#include "core/bytes.h"
#include "core/result.h"

namespace cryptimg {

class BufferPool {
 public:
  // `count` buffers of `buffer_bytes` (rounded up to pages). out_of_memory where mmap fails.
  static Result<std::unique_ptr<BufferPool>> create(std::size_t count, std::size_t buffer_bytes);
  ~BufferPool() = default;  // REQUIRES: every buffer was released
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A page-aligned buffer, waiting until one is free. Give it back with release().
  [[nodiscard]] MutableBytes acquire() noexcept;
  // REQUIRES: `buffer` came from acquire() of this pool.
  void release(MutableBytes buffer) noexcept;
  [[nodiscard]] std::size_t buffer_bytes() const { return buffer_bytes_; }

 private:
  BufferPool(AnonymousMemory memory, std::size_t count, std::size_t buffer_bytes);

  const AnonymousMemory memory_;
  const std::size_t buffer_bytes_;
  std::mutex mutex_;
  std::condition_variable available_;
  std::vector<std::byte*>
      free_;  // guarded by mutex_; capacity for all, so that pushing never allocates
};

}  // namespace cryptimg
