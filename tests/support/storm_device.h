// SPDX-License-Identifier: GPL-3.0-or-later
//
// StormDevice: a BlockDevice in front of another, any read, write or allocation of which may fail,
// at random, with an errno at random, having done nothing or a part; or take a while. What it did
// is taken down, so that a test can say which requests had to suffer. FaultyDevice fails on order.
//
// Thread-safe, as far as the inner device is.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/block_device.h"
#include "tests/model/random.h"

namespace cryptimg::test {

class StormDevice final : public BlockDevice {
 public:
  struct Fault {
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
    int os_errno = 0;
  };
  static constexpr std::array<int, 6> kErrnos = {EIO, ENOSPC, EDQUOT, EROFS, ENODEV, EREMOTEIO};

  // Partial writes are of whole sectors, so that each sector stays old or new.
  StormDevice(std::unique_ptr<BlockDevice> inner, std::uint32_t sector_size_bytes,
              std::uint64_t seed)
      : inner_(std::move(inner)), sector_size_bytes_(sector_size_bytes), seed_(seed) {}

  // How many in a hundred calls fail. 0: calm.
  void set_chance(unsigned percent) { percent_ = percent; }
  // The faults so far, and those from the nth on that touched a range.
  [[nodiscard]] std::size_t faults() {
    const std::lock_guard lock(mutex_);
    return faults_.size();
  }
  [[nodiscard]] std::vector<Fault> faults_in(std::size_t from, std::uint64_t offset_bytes,
                                             std::uint64_t length_bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<Fault> found;
    for (std::size_t index = from; index < faults_.size(); ++index) {
      const Fault& fault = faults_[index];
      if (fault.offset_bytes < offset_bytes + length_bytes &&
          offset_bytes < fault.offset_bytes + fault.length_bytes) {
        found.push_back(fault);
      }
    }
    return found;
  }

  Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    const std::uint64_t fate = next();
    if (!strikes(fate)) {
      return inner_->read(offset_bytes, target);
    }
    (void)inner_->read(offset_bytes, target.first(part(fate, target.size())));
    return strike(fate, offset_bytes, target.size());
  }
  Status write(std::uint64_t offset_bytes, Bytes source) noexcept override {
    const std::uint64_t fate = next();
    if (!strikes(fate)) {
      return inner_->write(offset_bytes, source);
    }
    (void)inner_->write(offset_bytes, source.first(part(fate, source.size())));
    return strike(fate, offset_bytes, source.size());
  }
  Status flush() noexcept override { return inner_->flush(); }
  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    const std::uint64_t fate = next();
    return strikes(fate) ? strike(fate, offset_bytes, length_bytes)
                         : inner_->allocate(offset_bytes, length_bytes);
  }
  timespec modified_time() noexcept override { return inner_->modified_time(); }

 private:
  std::uint64_t next() { return model::mix(seed_ ^ calls_.fetch_add(1)); }
  [[nodiscard]] bool strikes(std::uint64_t fate) const {
    constexpr std::uint64_t kStallOneIn = 64;
    if (percent_ != 0 && (fate >> 32) % kStallOneIn == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return fate % 100 < percent_;
  }
  [[nodiscard]] std::uint64_t part(std::uint64_t fate, std::uint64_t size_bytes) const {
    return (fate >> 40) % (size_bytes / sector_size_bytes_) * sector_size_bytes_;
  }
  Status strike(std::uint64_t fate, std::uint64_t offset_bytes, std::uint64_t length_bytes) {
    const int os_errno = kErrnos[(fate >> 16) % kErrnos.size()];
    const std::lock_guard lock(mutex_);
    faults_.push_back({offset_bytes, length_bytes, os_errno});
    return fail(errc_from_errno(os_errno), {}, os_errno);
  }

  const std::unique_ptr<BlockDevice> inner_;
  const std::uint32_t sector_size_bytes_;
  const std::uint64_t seed_;
  std::atomic<unsigned> percent_{0};
  std::atomic<std::uint64_t> calls_{0};
  std::mutex mutex_;
  std::vector<Fault> faults_;  // guarded by mutex_
};

}  // namespace cryptimg::test
