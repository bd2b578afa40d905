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
  };

  // `image` lives until detach(). `engine` is what it ciphers with, held until then too.
  DaemonStatus(EncryptedImage& image, Facts facts,
               std::shared_ptr<const CipherEngine> engine = nullptr)
      : image_(&image), engine_(std::move(engine)), facts_(std::move(facts)) {}

  // The answer to one request line: "status" or "set". Waits for no I/O. May throw bad_alloc.
  std::string answer(const std::string& request);
  // The image is about to go: from now on every answer is that the mount is ending.
  void detach();

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  EncryptedImage* image_;                       // guarded by mutex_; null once detached
  std::shared_ptr<const CipherEngine> engine_;  // guarded by mutex_; may be null
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
