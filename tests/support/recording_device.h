// SPDX-License-Identifier: GPL-3.0-or-later
//
// RecordingDevice: a BlockDevice in front of another that takes down every write, with its bytes,
// and every flush, each with when it began and when it ended. From that log what a power cut leaves
// can be made again (tests/reliability/power_cut.h).
//
// Thread-safe, as far as the inner device is: bytes pass without a lock held. Other threads are let
// run while a call is under way, so that what must not happen meanwhile has its chance. Times are
// ticks of an EventClock, which the test shares, so that what the device did and what callers were
// told can be put in one order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/block_device.h"

namespace cryptimg::test {

// Counts events. A tick taken before something begins is smaller than any taken after it.
class EventClock {
 public:
  std::uint64_t tick() { return now_.fetch_add(1) + 1; }
  [[nodiscard]] std::uint64_t now() const { return now_.load(); }

 private:
  std::atomic<std::uint64_t> now_{0};
};

// What happened to a device. To be read when nobody works on it any more.
struct DeviceLog {
  struct Write {
    std::uint64_t offset_bytes = 0;
    std::vector<std::byte> bytes;
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;  // 0: never, or it failed: part of it may be there
  };
  struct Flush {
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;  // 0: never, or it failed
  };

  std::vector<Write> writes;  // by their beginning
  std::vector<Flush> flushes;
  std::uint64_t overlaps = 0;  // writes begun where another was under way: the caller's error
};

class RecordingDevice final : public BlockDevice {
 public:
  // `clock` and `log` must outlive this.
  RecordingDevice(std::unique_ptr<BlockDevice> inner, EventClock& clock, DeviceLog& log)
      : inner_(std::move(inner)), clock_(clock), log_(log) {}

  Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    return inner_->read(offset_bytes, target);
  }
  Status write(std::uint64_t offset_bytes, Bytes source) noexcept override {
    const std::size_t index = begin_write(offset_bytes, source);
    Status status = inner_->write(offset_bytes, source);
    std::this_thread::yield();
    end_write(index, status.has_value());
    return status;
  }
  Status flush() noexcept override {
    const std::uint64_t begun = clock_.tick();
    Status status = inner_->flush();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    const std::lock_guard lock(mutex_);
    log_.flushes.push_back({begun, status ? clock_.tick() : 0});
    return status;
  }
  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    return inner_->allocate(offset_bytes, length_bytes);
  }
  timespec modified_time() noexcept override { return inner_->modified_time(); }

 private:
  std::size_t begin_write(std::uint64_t offset_bytes, Bytes source) {
    DeviceLog::Write write{offset_bytes, {source.begin(), source.end()}, 0, 0};
    const std::lock_guard lock(mutex_);
    for (const std::size_t other : under_way_) {
      const DeviceLog::Write& there = log_.writes[other];
      if (there.offset_bytes < offset_bytes + source.size() &&
          offset_bytes < there.offset_bytes + there.bytes.size()) {
        ++log_.overlaps;
      }
    }
    write.begun = clock_.tick();
    log_.writes.push_back(std::move(write));
    under_way_.push_back(log_.writes.size() - 1);
    return under_way_.back();
  }
  void end_write(std::size_t index, bool is_good) {
    const std::lock_guard lock(mutex_);
    std::erase(under_way_, index);
    log_.writes[index].ended = is_good ? clock_.tick() : 0;
  }

  const std::unique_ptr<BlockDevice> inner_;
  EventClock& clock_;
  std::mutex mutex_;
  DeviceLog& log_;                      // guarded by mutex_
  std::vector<std::size_t> under_way_;  // guarded by mutex_: indices of log_.writes
};

}  // namespace cryptimg::test
