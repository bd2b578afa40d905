// SPDX-License-Identifier: GPL-3.0-or-later
//
// RawCipher: what an AES driver of the kernel does with one operation: ECB, CBC or XTS over all it
// is given, with one IV. By OpenSSL, for tests. Safe from several threads: each call makes its own
// context.
#pragma once

#include <memory>

#include <openssl/evp.h>

#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "engines/afalg_drivers.h"

namespace cryptimg::test {

// EVP's cipher of a mode and a key size in bytes (of both keys, for XTS); null where there is none.
inline const EVP_CIPHER* raw_cipher(AlgMode mode, std::size_t key_bytes) {
  switch (mode) {
    case AlgMode::ecb:
      return key_bytes == 16   ? EVP_aes_128_ecb()
             : key_bytes == 24 ? EVP_aes_192_ecb()
             : key_bytes == 32 ? EVP_aes_256_ecb()
                               : nullptr;
    case AlgMode::cbc:
      return key_bytes == 16   ? EVP_aes_128_cbc()
             : key_bytes == 24 ? EVP_aes_192_cbc()
             : key_bytes == 32 ? EVP_aes_256_cbc()
                               : nullptr;
    case AlgMode::xts:
      break;
  }
  return key_bytes == 32 ? EVP_aes_128_xts() : key_bytes == 64 ? EVP_aes_256_xts() : nullptr;
}

// One operation. False where OpenSSL refuses. REQUIRES: source and target of the same size.
inline bool raw_operation(AlgMode mode, Bytes key, Direction direction, Bytes iv, Bytes source,
                          MutableBytes target) {
  const auto uchars = [](const std::byte* bytes) {
    return reinterpret_cast<const unsigned char*>(bytes);
  };
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(
      EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free);
  const EVP_CIPHER* cipher = raw_cipher(mode, key.size());
  int written = 0;
  return context != nullptr && cipher != nullptr &&
         EVP_CipherInit_ex(context.get(), cipher, nullptr, uchars(key.data()),
                           iv.empty() ? nullptr : uchars(iv.data()),
                           direction == Direction::encrypt ? 1 : 0) == 1 &&
         EVP_CIPHER_CTX_set_padding(context.get(), 0) == 1 &&
         EVP_CipherUpdate(context.get(), reinterpret_cast<unsigned char*>(target.data()), &written,
                          uchars(source.data()), static_cast<int>(source.size())) == 1 &&
         written == static_cast<int>(source.size());
}

}  // namespace cryptimg::test
