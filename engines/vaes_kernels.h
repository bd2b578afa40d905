// SPDX-License-Identifier: GPL-3.0-or-later
//
// The VAES routines, one table per instruction set level. HERMETIC: the files behind this header
// are compiled with instructions the machine may lack, so they include nothing but <immintrin.h>
// and this header, and define nothing inline with external linkage: else the
// linker might keep a copy compiled for the wrong machine.
//
// All functions are pure (no state, any thread), constant time by construction (AES instructions,
// no table look-ups, no branches on data), and do not allocate. Round keys are 16 bytes each, in
// the order AESENC or AESDEC takes them. Source and target are equal or disjoint, of any alignment.
#pragma once

// NOLINTBEGIN(modernize-deprecated-headers): the C++ ones bring inline functions along
#include <stddef.h>
#include <stdint.h>
// NOLINTEND(modernize-deprecated-headers)

namespace cryptimg {

inline constexpr size_t kAesBlockBytes = 16;
inline constexpr size_t kMaxRoundKeyBytes = 15 * kAesBlockBytes;

struct VaesKernels {
  const char* level;  // "avx512" or "avx2"

  // AES-ECB of `blocks` blocks: what makes XTS tweaks and ESSIV IVs from sector counters.
  void (*ecb_encrypt)(const uint8_t* round_keys, unsigned rounds, const uint8_t* source,
                      uint8_t* target, size_t blocks);

  // XTS (IEEE 1619) over `sectors` sectors of `sector_bytes` (a multiple of 512). `tweaks` holds
  // each sector's enciphered tweak, 16 bytes a sector.
  void (*xts_encrypt)(const uint8_t* round_keys, unsigned rounds, const uint8_t* tweaks,
                      size_t sector_bytes, size_t sectors, const uint8_t* source, uint8_t* target);
  void (*xts_decrypt)(const uint8_t* round_keys, unsigned rounds, const uint8_t* tweaks,
                      size_t sector_bytes, size_t sectors, const uint8_t* source, uint8_t* target);

  // CBC (NIST SP 800-38A), each sector a message of its own under its 16-byte IV in `ivs`.
  // Enciphering is serial within a sector, so up to 16 sectors go side by side.
  void (*cbc_encrypt)(const uint8_t* round_keys, unsigned rounds, const uint8_t* ivs,
                      size_t sector_bytes, size_t sectors, const uint8_t* source, uint8_t* target);
  void (*cbc_decrypt)(const uint8_t* round_keys, unsigned rounds, const uint8_t* ivs,
                      size_t sector_bytes, size_t sectors, const uint8_t* source, uint8_t* target);

  // Zeroes the vector registers, which still hold round keys and plaintext after a call.
  void (*clear_registers)();
};

extern const VaesKernels kVaesAvx512;
extern const VaesKernels kVaesAvx2;

// Expands a key of 16, 24 or 32 bytes (FIPS 197, section 5.2, and 5.3.5 for the equivalent inverse
// cipher) into round keys for AESENC and, where `decrypt_keys` is not null, AESDEC. Both have room
// for kMaxRoundKeyBytes. Returns the number of rounds. Needs AES-NI.
unsigned vaes_expand_key(const uint8_t* key, size_t key_bytes, uint8_t* encrypt_keys,
                         uint8_t* decrypt_keys);

}  // namespace cryptimg
