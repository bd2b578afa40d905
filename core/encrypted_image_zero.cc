// SPDX-License-Identifier: GPL-3.0-or-later
//
// What an image does besides reads and writes of the caller's bytes: zeroing and allocating.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/encrypted_image.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kMinScratchSectors = 3;

}  // namespace

Status EncryptedImage::zero(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                            MutableBytes scratch) noexcept {
  if (read_only_) {
    return fail(Errc::read_only);
  }
  if (!inside(offset_bytes, length_bytes, size_bytes_)) {
    return fail(Errc::out_of_range);
  }
  const std::uint64_t piece_bytes = round_down(scratch.size(), spec_.sector_size_bytes);
  if (piece_bytes < kMinScratchSectors * spec_.sector_size_bytes) {
    return fail(Errc::invalid_argument);
  }
  const std::uint64_t end_bytes = offset_bytes + length_bytes;
  for (std::uint64_t begin = offset_bytes; begin < end_bytes;) {
    const std::uint64_t first_sector_bytes = round_down(begin, spec_.sector_size_bytes);
    const std::uint64_t end = std::min(end_bytes, first_sector_bytes + piece_bytes);
    IoRequest request;
    request.kind = IoRequest::Kind::write;
    request.offset_bytes = begin;
    request.length_bytes = end - begin;
    request.buffer = scratch.first(cover(begin, end - begin).length_bytes);
    std::memset(request.buffer.data(), 0, request.buffer.size());
    CRYPTIMG_RETURN_IF_ERROR(submit_and_wait(request));
    begin = end;
  }
  return {};
}

Status EncryptedImage::allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept {
  if (read_only_) {
    return fail(Errc::read_only);
  }
  if (!inside(offset_bytes, length_bytes, size_bytes_)) {
    return fail(Errc::out_of_range);
  }
  if (length_bytes == 0) {
    return {};
  }
  Status status = device_->allocate(offset_bytes, length_bytes);
  // Blocks are a change that fsync has to make last.
  flusher_.note_write();
  return status;
}

Status EncryptedImage::submit_and_wait(IoRequest& request) noexcept {
  struct Waiter {
    std::mutex mutex;
    std::condition_variable wake;
    bool done = false;  // guarded by mutex
    Status status;      // guarded by mutex
  } waiter;
  request.context = &waiter;
  request.completion = [](IoRequest& completed, Status status) noexcept {
    auto& waiting = *static_cast<Waiter*>(completed.context);
    // Notified under the mutex: once it is free, the waiter may be gone.
    const std::lock_guard lock(waiting.mutex);
    waiting.status = std::move(status);
    waiting.done = true;
    waiting.wake.notify_one();
  };
  submit(request);
  std::unique_lock lock(waiter.mutex);
  waiter.wake.wait(lock, [&] { return waiter.done; });
  return std::move(waiter.status);
}

}  // namespace cryptimg
