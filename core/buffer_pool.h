// SPDX-License-Identifier: GPL-3.0-or-later
//
// BufferPool: a fixed number of page-aligned buffers made at mount, so that memory is bounded
// whatever the load and no request allocates. When it is empty, acquire() waits: back-pressure.
// Thread-safe. The memory is out of core dumps, and zeroed when the pool is destroyed.
//
// A buffer given back holds plaintext until it is used again. Wiping each would cost as much as
// part of the deciphering, so what lies idle is wiped: somebody watches used_fd(), and then calls
// wipe_idle() at intervals until it returns false.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/anonymous_memory.h"
#include "core/bytes.h"
#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

class BufferPool {
 public:
  // `count` buffers of `buffer_bytes` (rounded up to pages). out_of_memory where mmap fails.
  static Result<std::unique_ptr<BufferPool>> create(std::size_t count, std::size_t buffer_bytes);
  ~BufferPool() = default;  // REQUIRES: every buffer was released
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // A page-aligned buffer, waiting until one is free. Give it back with release(). It may hold
  // what its last user left.
  [[nodiscard]] MutableBytes acquire() noexcept;
  // The same without plaintext in it: for who keeps it long. Wipes it where no such one is free.
  [[nodiscard]] MutableBytes acquire_clean() noexcept;
  // REQUIRES: `buffer` came from this pool.
  void release(MutableBytes buffer) noexcept;
  // REQUIRES: also that there is no plaintext in `buffer`.
  void release_clean(MutableBytes buffer) noexcept;
  [[nodiscard]] std::size_t buffer_bytes() const { return buffer_bytes_; }

  // Readable from when plaintext lies in a free buffer; read it before the first wipe_idle().
  [[nodiscard]] int used_fd() const { return used_.get(); }
  // Wipes the free buffers that have not been used since the call before. False where no free
  // buffer holds plaintext any more: used_fd() will tell of the next.
  bool wipe_idle() noexcept;
  // Wipes all free buffers.
  void wipe_free() noexcept;

 private:
  struct Free {
    std::byte* data = nullptr;
    bool has_plaintext = false;
    std::uint64_t round = 0;  // round_ when it was released
  };

  BufferPool(AnonymousMemory memory, std::size_t count, std::size_t buffer_bytes, UniqueFd used);
  void put_back(MutableBytes buffer, bool has_plaintext) noexcept;
  // Wipes those released before `round`, one by one, so that acquire() hardly waits. Whether some
  // with plaintext are left. REQUIRES: `lock` holds mutex_.
  bool wipe_before(std::uint64_t round, std::unique_lock<std::mutex>& lock) noexcept;

  const AnonymousMemory memory_;
  const std::size_t buffer_bytes_;
  const UniqueFd used_;
  std::mutex mutex_;
  std::condition_variable available_;
  // The one to take next is last. Guarded by mutex_; capacity for all, so that it never allocates.
  std::vector<Free> free_;
  std::uint64_t round_ = 0;  // guarded by mutex_: calls of wipe_idle()
  bool is_told_ = false;     // guarded by mutex_: used_ was written to
};

}  // namespace cryptimg
