// SPDX-License-Identifier: GPL-3.0-or-later
//
// MemoryDevice: a BlockDevice in memory. Thread-safe for disjoint ranges and for concurrent reads;
// an overlap with a write is a data race, which ThreadSanitizer reports: that is how the tests
// prove the range locks.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/block_device.h"
#include "core/extent.h"

namespace cryptimg::test {

class MemoryDevice final : public BlockDevice {
 public:
  explicit MemoryDevice(std::uint64_t size_bytes) : content_(size_bytes) {}

  Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    if (!inside(offset_bytes, target.size(), content_.size())) {
      return fail(Errc::io, {}, EIO);
    }
    std::memcpy(target.data(), content_.data() + offset_bytes, target.size());
    return {};
  }
  Status write(std::uint64_t offset_bytes, Bytes source) noexcept override {
    if (!inside(offset_bytes, source.size(), content_.size())) {
      return fail(Errc::io, {}, EIO);
    }
    std::memcpy(content_.data() + offset_bytes, source.data(), source.size());
    ++writes_;
    return {};
  }
  Status flush() noexcept override {
    ++flushes_;
    return {};
  }
  Status allocate(std::uint64_t /*offset_bytes*/, std::uint64_t length_bytes) noexcept override {
    allocated_bytes_ += length_bytes;
    return {};
  }
  timespec modified_time() noexcept override { return {static_cast<time_t>(writes_.load()), 0}; }

  // The stored bytes. REQUIRES: no writer at work.
  [[nodiscard]] MutableBytes content() { return content_; }
  [[nodiscard]] std::uint64_t writes() const { return writes_; }
  [[nodiscard]] std::uint64_t flushes() const { return flushes_; }
  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  std::vector<std::byte> content_;
  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::uint64_t> flushes_{0};
  std::atomic<std::uint64_t> allocated_bytes_{0};
};

}  // namespace cryptimg::test
