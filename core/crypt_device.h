// SPDX-License-Identifier: GPL-3.0-or-later
//
// CryptDevice: a libcryptsetup context, made so that it cannot change a byte it was not asked to
// (no automatic header repair), loads no token plugins and prints nothing. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/result.h"

struct crypt_device;

namespace cryptimg {

class CryptDevice {
 public:
  // A context whose header is in the file behind `header_fd` and whose data, where that is another
  // file, behind `data_fd`. libcryptsetup opens descriptors of its own on those inodes; they are
  // closed when this is destroyed. Nothing is read yet. io, EMFILE or ENFILE, where there are too
  // few descriptors left for it to work.
  static Result<CryptDevice> over(int header_fd, std::optional<int> data_fd);

  [[nodiscard]] crypt_device* get() const { return device_.get(); }

  // The last error libcryptsetup reported, fit for a message, or an empty string.
  [[nodiscard]] std::string last_error() const { return *last_error_; }
  // ": <last error>" or, where there was none, ": <strerror of the negative return code>".
  [[nodiscard]] std::string reason(int return_code) const;

 private:
  struct Free {
    void operator()(crypt_device* device) const;
  };

  // Outlives device_, whose log callback points at it.
  std::unique_ptr<std::string> last_error_;
  std::unique_ptr<crypt_device, Free> device_;
};

}  // namespace cryptimg
