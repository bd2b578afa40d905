// SPDX-License-Identifier: GPL-3.0-or-later
//
// Flusher: which writes are on stable storage, and the error that ends all trust in that. Once the
// kernel has reported a failed fdatasync it drops the pages and reports nothing more, so the first
// failure is kept and every later flush answers with it.
//
// Thread-safe. Flushes are serialised, because the kernel tells only one of several at once on the
// same descriptor of a failure; one that waited may find that another, begun meanwhile, covers it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/block_device.h"
#include "core/result.h"

namespace cryptimg {

class Flusher {
 public:
  // `device` must outlive this.
  explicit Flusher(BlockDevice& device) : device_(device) {}

  // Numbers a change of the device that has just ended, well or badly; before anybody is told of
  // it.
  std::uint64_t note_write() noexcept;

  // As EncryptedImage's functions of these names.
  Status flush() noexcept;
  Status flush_if_dirty() noexcept;
  [[nodiscard]] std::uint64_t write_sequence() const noexcept;
  [[nodiscard]] std::uint64_t flushed_sequence() const noexcept;
  // Never blocks, also while a flush is stuck.
  [[nodiscard]] Status state() const noexcept;

  // Flushes of the device that were begun, and those that failed (0 or 1).
  [[nodiscard]] std::uint64_t flushes() const noexcept;
  [[nodiscard]] std::uint64_t failures() const noexcept;

 private:
  BlockDevice& device_;
  std::mutex flush_mutex_;               // held while the device flushes
  std::atomic<std::uint64_t> begun_{0};  // changed under flush_mutex_
  std::atomic<std::uint64_t> write_sequence_{0};
  std::atomic<std::uint64_t> flushed_sequence_{0};  // changed under flush_mutex_
  std::atomic<bool> failed_{false};
  Error error_;  // written once, before failed_ is set; constant from then on
};

}  // namespace cryptimg
