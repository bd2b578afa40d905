// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_lock.h"

#include <thread>

#include "fuse/daemon_log.h"

namespace cryptimg {
namespace {

constexpr const char* kStuck = "requests are taking too long; try again when the disk answers";

// The session's threads have ended their part of them, workers may not.
bool wait_for_requests(const EncryptedImage& image) {
  const auto deadline = std::chrono::steady_clock::now() + MountLock::kPatience;
  while (image.in_flight() != 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

MountLock::State MountLock::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

Status MountLock::lock(bool holds) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    return fail(Errc::shutting_down, "the mount is ending");
  }
  if (state_ != State::open) {
    return fail(Errc::exists, "it is locked already");
  }
  if (!parts_.session.pause(kPatience)) {
    return fail(Errc::busy, kStuck);
  }
  if (!wait_for_requests(parts_.image) || !parts_.image.drop_keys(kPatience)) {
    parts_.session.resume();
    return fail(Errc::busy, kStuck);
  }
  parts_.pool.wipe_free();
  state_ = holds ? State::holding : State::failing;
  if (!holds) {
    parts_.session.resume();
  }
  log_info(holds ? "locked: requests are held" : "locked: reads and writes fail");
  return {};
}

Status MountLock::unlock(const Secret& key) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    return fail(Errc::shutting_down, "the mount is ending");
  }
  if (state_ == State::open) {
    return fail(Errc::exists, "it is not locked");
  }
  if (!parts_.key.matches(key.bytes())) {
    return fail(Errc::wrong_key, "this is not the key of the container that is mounted");
  }
  if (state_ == State::failing && !parts_.session.pause(kPatience)) {
    return fail(Errc::busy, kStuck);
  }
  Status taken = wait_for_requests(parts_.image) ? parts_.image.take_key(parts_.engine, key)
                                                 : fail(Errc::busy, kStuck);
  if (taken) {
    state_ = State::open;
    log_info("unlocked");
    if (!Secret::all_locked()) {
      log_warning("the key could not be locked into memory and may reach swap");
    }
  }
  if (state_ != State::holding) {
    parts_.session.resume();
  }
  return taken;
}

void MountLock::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

}  // namespace cryptimg
