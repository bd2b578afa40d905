// SPDX-License-Identifier: GPL-3.0-or-later
//
// KeyDigest: tells whether a key is one that was here before, without keeping the key. A salted
// hash (BLAKE2b, by libsodium): it says nothing of a key of 128 random bits or more, and is not the
// SHA-256 that ESSIV makes its key with. A plain value; any thread.
#pragma once

#include <array>
#include <cstddef>

#include "core/bytes.h"

namespace cryptimg {

class KeyDigest {
 public:
  // Matches no key.
  KeyDigest() = default;
  // REQUIRES: some Secret was allocated before, which makes libsodium ready.
  explicit KeyDigest(Bytes key);

  // In constant time for keys of one size.
  [[nodiscard]] bool matches(Bytes key) const;
  [[nodiscard]] std::size_t key_size_bytes() const { return key_size_bytes_; }

 private:
  std::array<unsigned char, 32> salt_{};
  std::array<unsigned char, 32> digest_{};
  std::size_t key_size_bytes_ = 0;
};

}  // namespace cryptimg
