// SPDX-License-Identifier: GPL-3.0-or-later
//
// DaemonStatus: what the control channel answers about a mount, see control.h for the fields.
// Thread-safe: the control thread asks while the main thread ends the mount.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/cipher_engine.h"
#include "core/encrypted_image.h"
#include "core/result.h"
#include "fuse/control.h"
#include "fuse/mount_lock.h"

namespace cryptimg {

class DaemonStatus {
 public:
  // What does not change while mounted.
  struct Facts {
    std::string container;
    std::string mountpoint;
    std::string engine;
    std::string cipher;
    unsigned session_threads = 0;
    std::string uuid;    // of the container's header
    std::string header;  // its file, where that is not the container
  };

  // `image` and `lock` live until detach(). `engine` is what it ciphers with, held until then too.
  // Without `lock` the mount can not be locked.
  DaemonStatus(EncryptedImage& image, Facts facts,
               std::shared_ptr<const CipherEngine> engine = nullptr, MountLock* lock = nullptr)
      : image_(&image), engine_(std::move(engine)), lock_(lock), facts_(std::move(facts)) {}

  // The answer to one request line: "status", "set", "lock" or "unlock". Waits for no I/O but what
  // "lock" waits for. May throw bad_alloc.
  ControlServer::Answer answer(const std::string& request);
  // The answer to the key of an "unlock".
  std::string answer_key(const Secret& key);
  // The image is about to go: from now on every answer is that the mount is ending.
  void detach();

 private:
  std::string describe();

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  EncryptedImage* image_;                       // guarded by mutex_; null once detached
  std::shared_ptr<const CipherEngine> engine_;  // guarded by mutex_; may be null
  MountLock* lock_;                             // guarded by mutex_; may be null
  const Facts facts_;
};

// Where a daemon serves what, by its own words.
struct ServedPlace {
  std::string container;
  std::string mountpoint;
  bool read_only = false;
};

// From the answer to "status"; nothing where the daemon is ending, or the line is something else.
std::optional<ServedPlace> served_place(const std::string& answer);

// The line that tells clients in wait-end how the last flush went.
std::string flush_line(const Status& status);

}  // namespace cryptimg
