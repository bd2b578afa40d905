// SPDX-License-Identifier: GPL-3.0-or-later
//
// ReferenceCipher: the sector ciphers written for obviousness, one block at a time, from nothing
// but AES on one block. It shares no mode or IV code with any engine. Slow. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/cipher_engine.h"

namespace cryptimg::test {

using Block = std::array<std::byte, 16>;

// AES, the key's size choosing 128, 192 or 256 bits, on one block.
class BlockCipher {
 public:
  explicit BlockCipher(Bytes key);
  ~BlockCipher();
  BlockCipher(const BlockCipher&) = delete;
  BlockCipher& operator=(const BlockCipher&) = delete;

  [[nodiscard]] Block encrypt(const Block& block) const;
  [[nodiscard]] Block decrypt(const Block& block) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class ReferenceCipher {
 public:
  // REQUIRES: check_spec(spec), and a key of its size.
  ReferenceCipher(const CipherSpec& spec, Bytes key);

  // What a CipherSession has to answer. REQUIRES: whole sectors.
  [[nodiscard]] std::vector<std::byte> transform(Direction direction, std::uint64_t first_sector,
                                                 Bytes source) const;
  // The 16 bytes that the mode starts a sector with.
  [[nodiscard]] Block iv(std::uint64_t sector) const;

 private:
  void xts_sector(Direction direction, const Block& iv, MutableBytes data) const;
  void cbc_sector(Direction direction, const Block& iv, MutableBytes data) const;

  CipherSpec spec_;
  BlockCipher data_cipher_;
  BlockCipher iv_cipher_;  // XTS: the tweak key's; CBC: the ESSIV's
};

std::vector<std::byte> sha256(Bytes data);

}  // namespace cryptimg::test
