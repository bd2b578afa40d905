// SPDX-License-Identifier: GPL-3.0-or-later
//
// SessionPool: the cipher sessions that calling threads borrow, made at mount. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg {

class SessionPool {
 public:
  // A borrowed session, given back when destroyed.
  class Lease {
   public:
    Lease(SessionPool& pool, CipherSession* session) : pool_(pool), session_(session) {}
    ~Lease() { release(); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // REQUIRES: not released.
    CipherSession& operator*() const { return *session_; }
    void release() noexcept;

   private:
    SessionPool& pool_;
    CipherSession* session_;
  };

  // Opens `count` sessions. Fails as the engine does.
  Status open(const CipherEngine& engine, const CipherSpec& spec, const Secret& key,
              unsigned count);

  // Destroys the sessions. REQUIRES: none is borrowed, nobody waits for one.
  void close() noexcept;

  // Waits until a session is free. Whoever holds one must not wait for a range.
  [[nodiscard]] Lease acquire() noexcept;

  // How often another thread was at it.
  [[nodiscard]] std::uint64_t contended() const noexcept { return contended_.load(); }

 private:
  std::vector<std::unique_ptr<CipherSession>> sessions_;  // changed by open() and close() only
  std::atomic<std::uint64_t> contended_{0};
  std::mutex mutex_;
  std::condition_variable available_;
  std::vector<CipherSession*> free_;  // guarded by mutex_; never grows after open()
};

}  // namespace cryptimg
