// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/key_digest.h"

#include <sodium.h>

namespace cryptimg {
namespace {

using Block = std::array<unsigned char, 32>;

Block salted_hash(Bytes key, const Block& salt) {
  Block digest{};
  // Cannot fail: the sizes are within its bounds.
  crypto_generichash(digest.data(), digest.size(),
                     reinterpret_cast<const unsigned char*>(key.data()), key.size(), salt.data(),
                     salt.size());
  return digest;
}

}  // namespace

KeyDigest::KeyDigest(Bytes key) : key_size_bytes_(key.size()) {
  randombytes_buf(salt_.data(), salt_.size());
  digest_ = salted_hash(key, salt_);
}

bool KeyDigest::matches(Bytes key) const {
  if (key.empty() || key.size() != key_size_bytes_) {
    return false;
  }
  const Block other = salted_hash(key, salt_);
  return sodium_memcmp(other.data(), digest_.data(), digest_.size()) == 0;
}

}  // namespace cryptimg
