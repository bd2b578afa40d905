// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/buffer_pool.h"

#include <string>
#include <utility>

#include <unistd.h>

namespace cryptimg {

Result<std::unique_ptr<BufferPool>> BufferPool::create(std::size_t count,
                                                       std::size_t buffer_bytes) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto rounded = round_up(buffer_bytes, page_bytes);
  const auto total = rounded ? checked_mul<std::uint64_t>(*rounded, count) : std::nullopt;
  if (!total || *total == 0) {
    return fail(Errc::invalid_argument, "a buffer pool needs at least one buffer of a sane size");
  }
  auto memory = AnonymousMemory::create(*total);
  if (!memory) {
    return fail(Errc::out_of_memory,
                "no memory for " + std::to_string(count) + " buffers of " +
                    std::to_string(*rounded) + " bytes, lower the number of requests in flight",
                memory.error().os_errno);
  }
  return std::unique_ptr<BufferPool>(
      new BufferPool(std::move(*memory), count, static_cast<std::size_t>(*rounded)));
}

BufferPool::BufferPool(AnonymousMemory memory, std::size_t count, std::size_t buffer_bytes)
    : memory_(std::move(memory)), buffer_bytes_(buffer_bytes) {
  free_.reserve(count);
  for (std::size_t index = count; index > 0; --index) {
    free_.push_back(memory_.bytes().data() + (index - 1) * buffer_bytes);
  }
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
