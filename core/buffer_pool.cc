// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/buffer_pool.h"

#include <cerrno>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "core/secret.h"

namespace cryptimg {

Result<std::unique_ptr<BufferPool>> BufferPool::create(std::size_t count,
                                                       std::size_t buffer_bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto rounded = round_up(buffer_bytes, page_bytes);
  const auto total = rounded ? checked_mul<std::uint64_t>(*rounded, count) : std::nullopt;
  if (!total || *total == 0) {
    return fail(Errc::invalid_argument, "a buffer pool needs at least one buffer of a sane size");
  }
  void* const memory =
      ::mmap(nullptr, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    const int os_errno = errno;
    return fail(Errc::out_of_memory,
                "no memory for " + std::to_string(count) + " buffers of " +
                    std::to_string(*rounded) + " bytes, lower the number of requests in flight",
                os_errno);
  }
  // Fails only on kernels built without it; the daemon is not dumpable anyway.
  (void)::madvise(memory, *total, MADV_DONTDUMP);
  return std::unique_ptr<BufferPool>(
      new BufferPool(static_cast<std::byte*>(memory), count, static_cast<std::size_t>(*rounded)));
}

BufferPool::BufferPool(std::byte* memory, std::size_t count, std::size_t buffer_bytes)
    : memory_(memory), count_(count), buffer_bytes_(buffer_bytes) {
  free_.reserve(count);
  for (std::size_t index = count; index > 0; --index) {
    free_.push_back(memory + (index - 1) * buffer_bytes);
  }
}

BufferPool::~BufferPool() {
  wipe({memory_, count_ * buffer_bytes_});
  ::munmap(memory_, count_ * buffer_bytes_);
}

MutableBytes BufferPool::acquire() noexcept {
  std::unique_lock lock(mutex_);
  available_.wait(lock, [this] { return !free_.empty(); });
  // The one released last is the likeliest to be in the cache.
  std::byte* const buffer = free_.back();
  free_.pop_back();
  return {buffer, buffer_bytes_};
}

void BufferPool::release(MutableBytes buffer) noexcept {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(buffer.data());
  }
  available_.notify_one();
}

}  // namespace cryptimg
