// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/session_pool.h"

#include "core/counted_lock.h"

namespace cryptimg {

Status SessionPool::open(const CipherEngine& engine, const CipherSpec& spec, const Secret& key,
                         unsigned count) {
  const std::lock_guard lock(mutex_);
  free_.reserve(count);
  for (unsigned opened = 0; opened < count; ++opened) {
    CRYPTIMG_ASSIGN_OR_RETURN(std::unique_ptr<CipherSession> session,
                              engine.new_session(spec, key));
    free_.push_back(session.get());
    sessions_.push_back(std::move(session));
  }
  return {};
}

void SessionPool::close() noexcept {
  const std::lock_guard lock(mutex_);
  free_.clear();
  sessions_.clear();
}

SessionPool::Lease SessionPool::acquire() noexcept {
  std::unique_lock lock = counted_lock(mutex_, contended_);
  available_.wait(lock, [this] { return !free_.empty(); });
  CipherSession* const session = free_.back();
  free_.pop_back();
  return {*this, session};
}

void SessionPool::Lease::release() noexcept {
  CipherSession* const session = std::exchange(session_, nullptr);
  if (session == nullptr) {
    return;
  }
  {
    const std::unique_lock lock = counted_lock(pool_.mutex_, pool_.contended_);
    pool_.free_.push_back(session);
  }
  pool_.available_.notify_one();
}

}  // namespace cryptimg
