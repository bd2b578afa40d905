// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/reference_cipher.h"

#include <algorithm>
#include <stdexcept>

#include <openssl/evp.h>

namespace cryptimg::test {
namespace {

Block operator^(const Block& a, const Block& b) {
  Block result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = a[i] ^ b[i];
  }
  return result;
}

// Times alpha in GF(2^128), little endian, as IEEE Std 1619-2007, 5.2 steps from block to block.
Block times_alpha(const Block& block) {
  Block result;
  std::byte carry{0};
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = (block[i] << 1U) | carry;
    carry = block[i] >> 7U;
  }
  if (carry != std::byte{0}) {
    result[0] ^= std::byte{0x87};
  }
  return result;
}

Block load(Bytes data, std::size_t at) {
  Block block;
  std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(at), block.size(), block.begin());
  return block;
}

void store(const Block& block, MutableBytes data, std::size_t at) {
  std::copy(block.begin(), block.end(), data.begin() + static_cast<std::ptrdiff_t>(at));
}

Block crypt_block(EVP_CIPHER_CTX* context, const Block& block) {
  Block result;
  int written = 0;
  if (EVP_CipherUpdate(context, reinterpret_cast<unsigned char*>(result.data()), &written,
                       reinterpret_cast<const unsigned char*>(block.data()), 16) != 1 ||
      written != 16) {
    throw std::runtime_error("AES on one block failed");
  }
  return result;
}

Bytes data_key(const CipherSpec& spec, Bytes key) {
  return spec.mode == CipherMode::aes_xts ? key.first(key.size() / 2) : key;
}

std::vector<std::byte> iv_key(const CipherSpec& spec, Bytes key) {
  if (spec.mode == CipherMode::aes_xts) {
    const Bytes half = key.last(key.size() / 2);
    return {half.begin(), half.end()};
  }
  return sha256(key);
}

}  // namespace

struct BlockCipher::Impl {
  EVP_CIPHER_CTX* encrypt = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* decrypt = EVP_CIPHER_CTX_new();

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    EVP_CIPHER_CTX_free(encrypt);
    EVP_CIPHER_CTX_free(decrypt);
  }
};

BlockCipher::BlockCipher(Bytes key) : impl_(std::make_unique<Impl>()) {
  const EVP_CIPHER* cipher = key.size() == 16   ? EVP_aes_128_ecb()
                             : key.size() == 24 ? EVP_aes_192_ecb()
                                                : EVP_aes_256_ecb();
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
  if (EVP_CipherInit_ex(impl_->encrypt, cipher, nullptr, bytes, nullptr, 1) != 1 ||
      EVP_CipherInit_ex(impl_->decrypt, cipher, nullptr, bytes, nullptr, 0) != 1) {
    throw std::runtime_error("AES takes no such key");
  }
  EVP_CIPHER_CTX_set_padding(impl_->encrypt, 0);
  EVP_CIPHER_CTX_set_padding(impl_->decrypt, 0);
}

BlockCipher::~BlockCipher() = default;

Block BlockCipher::encrypt(const Block& block) const {
  return crypt_block(impl_->encrypt, block);
}
Block BlockCipher::decrypt(const Block& block) const {
  return crypt_block(impl_->decrypt, block);
}

ReferenceCipher::ReferenceCipher(const CipherSpec& spec, Bytes key)
    : spec_(spec), data_cipher_(data_key(spec, key)), iv_cipher_(iv_key(spec, key)) {}

Block ReferenceCipher::iv(std::uint64_t sector) const {
  const std::uint64_t counter = sector * (spec_.sector_size_bytes / 512);
  const std::size_t counter_bytes = spec_.iv == IvMode::plain ? 4 : 8;
  Block block{};
  for (std::size_t i = 0; i < counter_bytes; ++i) {
    block[i] = static_cast<std::byte>(counter >> (8 * i));
  }
  return spec_.iv == IvMode::essiv_sha256 ? iv_cipher_.encrypt(block) : block;
}

void ReferenceCipher::xts_sector(Direction direction, const Block& iv, MutableBytes data) const {
  Block tweak = iv_cipher_.encrypt(iv);
  for (std::size_t at = 0; at < data.size(); at += 16) {
    const Block masked = load(data, at) ^ tweak;
    const Block done = direction == Direction::encrypt ? data_cipher_.encrypt(masked)
                                                       : data_cipher_.decrypt(masked);
    store(done ^ tweak, data, at);
    tweak = times_alpha(tweak);
  }
}

void ReferenceCipher::cbc_sector(Direction direction, const Block& iv, MutableBytes data) const {
  Block previous = iv;
  for (std::size_t at = 0; at < data.size(); at += 16) {
    const Block block = load(data, at);
    if (direction == Direction::encrypt) {
      previous = data_cipher_.encrypt(block ^ previous);
      store(previous, data, at);
    } else {
      store(data_cipher_.decrypt(block) ^ previous, data, at);
      previous = block;
    }
  }
}

std::vector<std::byte> ReferenceCipher::transform(Direction direction, std::uint64_t first_sector,
                                                  Bytes source) const {
  std::vector<std::byte> result(source.begin(), source.end());
  const std::size_t sector_bytes = spec_.sector_size_bytes;
  for (std::size_t at = 0; at < result.size(); at += sector_bytes) {
    const Block start = iv(first_sector + at / sector_bytes);
    const MutableBytes sector = MutableBytes(result).subspan(at, sector_bytes);
    if (spec_.mode == CipherMode::aes_xts) {
      xts_sector(direction, start, sector);
    } else {
      cbc_sector(direction, start, sector);
    }
  }
  return result;
}

std::vector<std::byte> sha256(Bytes data) {
  std::vector<std::byte> digest(32);
  unsigned int size_bytes = 0;
  if (EVP_Digest(data.data(), data.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &size_bytes, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 failed");
  }
  return digest;
}

}  // namespace cryptimg::test
