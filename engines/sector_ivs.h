// SPDX-License-Identifier: GPL-3.0-or-later
//
// SectorIvs: what each sector's ciphering begins with, made on the CPU for engines whose device
// ciphers the data: the IV (CBC) or the enciphered tweak (XTS), as core/cipher_engine.h defines
// them. Holds a key schedule; used by one thread.
#pragma once

#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "core/result.h"
#include "core/secret.h"

namespace cryptimg {

class SectorIvs {
 public:
  // The key is only read during the call. unavailable where OpenSSL refuses.
  // REQUIRES: check_spec(spec) passed, key.size() == spec.key_size_bytes.
  static Result<SectorIvs> create(const CipherSpec& spec, const Secret& key);

  SectorIvs(SectorIvs&&) noexcept;
  SectorIvs& operator=(SectorIvs&&) noexcept;
  ~SectorIvs();

  // Fills `ivs`, 16 bytes a sector, for the sectors from `first_sector` (counted as transform
  // counts). False where OpenSSL fails. Does not allocate.
  [[nodiscard]] bool fill(std::uint64_t first_sector, MutableBytes ivs) noexcept;

  // Enciphers one block of zeros as an XTS driver enciphers an IV. REQUIRES: XTS.
  [[nodiscard]] bool zero_tweak(MutableBytes block) noexcept;

 private:
  struct Cipher;  // the tweak cipher, or ESSIV's; absent where IVs are plain counters
  SectorIvs(const CipherSpec& spec, std::unique_ptr<Cipher> cipher);

  CipherSpec spec_;
  std::unique_ptr<Cipher> cipher_;
};

}  // namespace cryptimg
