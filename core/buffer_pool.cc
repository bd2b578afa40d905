// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/buffer_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <sys/eventfd.h>
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
  auto memory = AnonymousMemory::create(*total);
  if (!memory) {
    return fail(Errc::out_of_memory,
                "no memory for " + std::to_string(count) + " buffers of " +
                    std::to_string(*rounded) + " bytes, lower the number of requests in flight",
                memory.error().os_errno);
  }
  UniqueFd used(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!used.valid()) {
    return fail_errno(errno, "cannot make an event descriptor");
  }
  return std::unique_ptr<BufferPool>(new BufferPool(
      std::move(*memory), count, static_cast<std::size_t>(*rounded), std::move(used)));
}

BufferPool::BufferPool(AnonymousMemory memory, std::size_t count, std::size_t buffer_bytes,
                       UniqueFd used)
    : memory_(std::move(memory)), buffer_bytes_(buffer_bytes), used_(std::move(used)) {
  free_.reserve(count);
  for (std::size_t index = count; index > 0; --index) {
    free_.push_back({memory_.bytes().data() + (index - 1) * buffer_bytes, false, 0});
  }
}

MutableBytes BufferPool::acquire() noexcept {
  std::unique_lock lock(mutex_);
  available_.wait(lock, [this] { return !free_.empty(); });
  // The one released last is the likeliest to be in the cache.
  std::byte* const buffer = free_.back().data;
  free_.pop_back();
  return {buffer, buffer_bytes_};
}

MutableBytes BufferPool::acquire_clean() noexcept {
  std::unique_lock lock(mutex_);
  available_.wait(lock, [this] { return !free_.empty(); });
  auto found = std::find_if(free_.rbegin(), free_.rend(),
                            [](const Free& each) { return !each.has_plaintext; });
  const bool is_clean = found != free_.rend();
  if (!is_clean) {
    found = free_.rbegin();
  }
  const MutableBytes buffer{found->data, buffer_bytes_};
  free_.erase(std::next(found).base());
  lock.unlock();
  if (!is_clean) {
    wipe(buffer);
  }
  return buffer;
}

void BufferPool::release(MutableBytes buffer) noexcept {
  put_back(buffer, true);
}

void BufferPool::release_clean(MutableBytes buffer) noexcept {
  put_back(buffer, false);
}

void BufferPool::put_back(MutableBytes buffer, bool has_plaintext) noexcept {
  bool tells = false;
  {
    const std::lock_guard lock(mutex_);
    free_.push_back({buffer.data(), has_plaintext, round_});
    tells = has_plaintext && !std::exchange(is_told_, is_told_ || has_plaintext);
  }
  available_.notify_one();
  if (tells) {
    const std::uint64_t one = 1;
    // Cannot fail: the counter is far from its limit.
    [[maybe_unused]] const ssize_t written = ::write(used_.get(), &one, sizeof one);
  }
}

bool BufferPool::wipe_before(std::uint64_t round, std::unique_lock<std::mutex>& lock) noexcept {
  const auto is_due = [round](const Free& each) {
    return each.has_plaintext && each.round < round;
  };
  for (auto due = std::find_if(free_.begin(), free_.end(), is_due); due != free_.end();
       due = std::find_if(free_.begin(), free_.end(), is_due)) {
    const MutableBytes buffer{due->data, buffer_bytes_};
    free_.erase(due);
    lock.unlock();
    wipe(buffer);
    lock.lock();
    free_.insert(free_.begin(), {buffer.data(), false, 0});
    available_.notify_one();
  }
  return std::any_of(free_.begin(), free_.end(),
                     [](const Free& each) { return each.has_plaintext; });
}

bool BufferPool::wipe_idle() noexcept {
  std::unique_lock lock(mutex_);
  is_told_ = wipe_before(round_++, lock);
  return is_told_;
}

void BufferPool::wipe_free() noexcept {
  std::unique_lock lock(mutex_);
  wipe_before(UINT64_MAX, lock);
}

}  // namespace cryptimg
