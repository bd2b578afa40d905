// SPDX-License-Identifier: GPL-3.0-or-later
//
// MountLock: takes the keys out of a mount and puts them back, without unmounting it. While locked
// there is no key, no key schedule and no plaintext in this process. What the kernel has cached of
// the image is the command's to drop (command_lock.cc): a process that serves must not wait for
// pages that it has to fill.
//
// Two ways of being locked: `failing` answers reads and writes with EIO, and everything else as
// ever; `holding` takes no request at all, the kernel keeps them until unlock. Thread-safe; lock()
// and unlock() are for the control thread, close() for the one that ends the mount.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "core/buffer_pool.h"
#include "core/cipher_engine.h"
#include "core/encrypted_image.h"
#include "core/key_digest.h"
#include "core/result.h"
#include "fuse/session.h"

namespace cryptimg {

class MountLock {
 public:
  enum class State : std::uint8_t { open, failing, holding };
  // For how long the requests that are being worked on may take to end.
  static constexpr std::chrono::seconds kPatience{5};

  // What a mount is made of; all of it outlives this, but after close() nothing of it is used.
  struct Parts {
    EncryptedImage& image;
    Session& session;
    BufferPool& pool;
    const CipherEngine& engine;
    KeyDigest key;  // of the volume key
  };
  explicit MountLock(const Parts& parts) : parts_(parts) {}
  MountLock(const MountLock&) = delete;
  MountLock& operator=(const MountLock&) = delete;

  // Waits for the requests under way, then wipes keys, buffers and what was read ahead. Fails, with
  // nothing changed: exists where it is locked already, busy where requests take longer than
  // kPatience, shutting_down.
  Status lock(bool holds);
  // Goes on with `key`. Fails, still locked: wrong_key where it is not the key that was dropped;
  // exists where it is not locked; else as lock(), and as the engine fails.
  Status unlock(const Secret& key);
  [[nodiscard]] State state() const;
  [[nodiscard]] std::size_t key_size_bytes() const { return parts_.key.key_size_bytes(); }

  // Waits for a lock() or unlock() under way; later ones fail. What is held goes on being held.
  void close();

 private:
  const Parts parts_;
  mutable std::mutex mutex_;
  State state_ = State::open;  // guarded by mutex_
  bool is_closed_ = false;     // guarded by mutex_
};

}  // namespace cryptimg
