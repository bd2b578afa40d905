// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/flusher.h"

namespace cryptimg {

std::uint64_t Flusher::note_write() noexcept {
  return write_sequence_.fetch_add(1) + 1;
}

Status Flusher::flush() noexcept {
  const std::uint64_t begun_before = begun_.load();
  const std::lock_guard lock(flush_mutex_);
  CRYPTIMG_RETURN_IF_ERROR(state());
  if (begun_.load() > begun_before) {
    return {};
  }
  // Read before the device is asked: what ends meanwhile may not be covered.
  const std::uint64_t covered = write_sequence_.load();
  begun_.fetch_add(1);
  Status status = device_.flush();
  if (!status) {
    error_ = status.error();
    failed_.store(true, std::memory_order_release);
    return status;
  }
  flushed_sequence_.store(covered);
  return {};
}

Status Flusher::flush_if_dirty() noexcept {
  if (flushed_sequence() == write_sequence()) {
    return state();
  }
  return flush();
}

std::uint64_t Flusher::write_sequence() const noexcept {
  return write_sequence_.load();
}

std::uint64_t Flusher::flushed_sequence() const noexcept {
  return flushed_sequence_.load();
}

Status Flusher::state() const noexcept {
  if (failed_.load(std::memory_order_acquire)) {
    return tl::unexpected(error_);
  }
  return {};
}

std::uint64_t Flusher::flushes() const noexcept {
  return begun_.load();
}

std::uint64_t Flusher::failures() const noexcept {
  return failed_.load() ? 1 : 0;
}

}  // namespace cryptimg
