// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/engine_checks.h"

#include <string>

#include <openssl/crypto.h>

namespace cryptimg {

bool transform_is_valid(const CipherSpec& spec, std::uint64_t first_sector, Bytes source,
                        MutableBytes target) noexcept {
  const std::uint64_t sector_bytes = spec.sector_size_bytes;
  if (source.empty() || source.size() != target.size() || source.size() % sector_bytes != 0) {
    return false;
  }
  const auto first_byte = checked_mul(first_sector, sector_bytes);
  if (!first_byte || !checked_add(*first_byte, std::uint64_t{source.size()})) {
    return false;
  }
  const auto from = reinterpret_cast<std::uintptr_t>(source.data());
  const auto to = reinterpret_cast<std::uintptr_t>(target.data());
  return from == to || (from < to ? to - from : from - to) >= source.size();
}

Status check_key(const CipherSpec& spec, const Secret& key) {
  if (key.size() != spec.key_size_bytes) {
    return fail(Errc::invalid_argument, "a key of " + std::to_string(key.size() * 8) +
                                            " bits was given for " + cipher_name(spec) + " with " +
                                            std::to_string(spec.key_size_bytes * 8) + " bits");
  }
  const std::size_t half_bytes = key.size() / 2;
  if (spec.mode == CipherMode::aes_xts &&
      CRYPTO_memcmp(key.bytes().data(), key.bytes().data() + half_bytes, half_bytes) == 0) {
    return fail(Errc::unsupported,
                "the two halves of the volume key are equal, which is not allowed for XTS; "
                "re-encrypt the container with a new volume key");
  }
  return {};
}

}  // namespace cryptimg
