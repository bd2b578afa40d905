// SPDX-License-Identifier: GPL-3.0-or-later
//
// FaultyDevice: a BlockDevice in front of another, whose nth read, write or flush goes wrong: fails
// with an errno, transfers only half and then fails (a device shorter than promised), or stalls
// until released. Thread-safe. Calls are counted from 1, per kind, since the last fault was set.
#pragma once

#include <array>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "core/block_device.h"

namespace cryptimg::test {

class FaultyDevice final : public BlockDevice {
 public:
  enum class Call : std::uint8_t { read, write, flush };
  enum class Fault : std::uint8_t { none, error, short_transfer, stall };
  static constexpr std::uint64_t kEvery = 0;

  explicit FaultyDevice(std::unique_ptr<BlockDevice> inner) : inner_(std::move(inner)) {}

  // Makes the nth call of a kind from now on (kEvery: each) go wrong. Replaces the kind's fault.
  void set(Call call, Fault fault, std::uint64_t nth, int os_errno = EIO) {
    const std::lock_guard lock(mutex_);
    plan(call) = Plan{fault, nth, os_errno, 0};
  }
  // Waits until `threads` calls are stalled.
  void wait_until_stalled(unsigned threads = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stalled_ >= threads; });
  }
  // Lets every stalled call go on, and forgets all stalls.
  void release() {
    const std::lock_guard lock(mutex_);
    for (Plan& each : plans_) {
      if (each.fault == Fault::stall) {
        each.fault = Fault::none;
      }
    }
    ++releases_;
    changed_.notify_all();
  }
  [[nodiscard]] std::uint64_t calls(Call call) {
    const std::lock_guard lock(mutex_);
    return plan(call).calls;
  }

  Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    const Outcome outcome = next(Call::read);
    if (outcome.fault == Fault::short_transfer) {
      (void)inner_->read(offset_bytes, target.first(target.size() / 2));
      return fail(Errc::io, {}, EIO);
    }
    return outcome.fault == Fault::error ? failure(outcome) : inner_->read(offset_bytes, target);
  }
  Status write(std::uint64_t offset_bytes, Bytes source) noexcept override {
    const Outcome outcome = next(Call::write);
    if (outcome.fault == Fault::short_transfer) {
      (void)inner_->write(offset_bytes, source.first(source.size() / 2));
      return fail(Errc::io, {}, EIO);
    }
    return outcome.fault == Fault::error ? failure(outcome) : inner_->write(offset_bytes, source);
  }
  Status flush() noexcept override {
    const Outcome outcome = next(Call::flush);
    return outcome.fault == Fault::error ? failure(outcome) : inner_->flush();
  }
  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    return inner_->allocate(offset_bytes, length_bytes);
  }
  timespec modified_time() noexcept override { return inner_->modified_time(); }

 private:
  struct Plan {
    Fault fault = Fault::none;
    std::uint64_t nth = kEvery;
    int os_errno = EIO;
    std::uint64_t calls = 0;
  };
  struct Outcome {
    Fault fault = Fault::none;
    int os_errno = 0;
  };

  Plan& plan(Call call) { return plans_[static_cast<std::size_t>(call)]; }

  static Status failure(const Outcome& outcome) {
    return fail(errc_from_errno(outcome.os_errno), {}, outcome.os_errno);
  }

  // Counts a call and says how it goes; a stall is waited out here.
  Outcome next(Call call) {
    std::unique_lock lock(mutex_);
    Plan& mine = plan(call);
    ++mine.calls;
    if (mine.nth != kEvery && mine.nth != mine.calls) {
      return {};
    }
    if (mine.fault != Fault::stall) {
      return {mine.fault, mine.os_errno};
    }
    ++stalled_;
    changed_.notify_all();
    changed_.wait(lock, [this, before = releases_] { return releases_ != before; });
    --stalled_;
    return {};
  }

  const std::unique_ptr<BlockDevice> inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Plan, 3> plans_{};  // guarded by mutex_
  unsigned stalled_ = 0;         // guarded by mutex_
  std::uint64_t releases_ = 0;   // guarded by mutex_
};

}  // namespace cryptimg::test
