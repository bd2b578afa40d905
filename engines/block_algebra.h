// SPDX-License-Identifier: GPL-3.0-or-later
//
// The block algebra: how one operation of an AES driver ciphers a run of many sectors, each of
// which has an IV of its own, and in modes that the driver does not have. Pure functions over
// bytes, any thread, no allocation; no key is needed but what the caller has made IVs and tweaks
// from.
//
// With D the deciphering of one block, a CBC driver makes of the blocks x that it is sent
// out[i] = D(x[i]) xor x[i-1], x[-1] being its IV; an ECB driver out[i] = D(x[i]). So, with c the
// ciphertext, p the plaintext and T[i] the XTS tweak of block i (IEEE 1619):
//   cbc_run       CBC deciphered by CBC: x = c, IV of the first sector. Only the first block of
//   each
//                 later sector is wrong, and becomes right by xor with x[i-1] and the sector's IV.
//   cbc_over_ecb  CBC deciphered by ECB: x = c, p[i] = out[i] xor (x[i-1], or the sector's IV).
//   cbc_sectors   CBC enciphered by CBC. Serial by nature: one operation a sector, nothing to mend.
//   xts_over_ecb  XTS either way by ECB: x[i] = c[i] xor T[i], p[i] = out[i] xor T[i].
//   xts_over_cbc  XTS deciphered by CBC with IV 0: x[i] = c[i] xor T[i],
//                 p[i] = out[i] xor x[i-1] xor T[i].
//   xts_over_xts  XTS either way by XTS, the run being one long sector with tweaks U:
//                 x[i] = c[i] xor T[i] xor U[i], p[i] = out[i] xor T[i] xor U[i].
// What was sent (x) must still be there when the result is mended, so it lies apart from the
// target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "engines/afalg_drivers.h"

namespace cryptimg {

inline constexpr std::size_t kCipherBlockBytes = 16;

enum class OffloadForm : std::uint8_t {
  none,  // there is no form in one operation, nor in one a sector
  cbc_run,
  cbc_over_ecb,
  cbc_sectors,
  xts_over_ecb,
  xts_over_cbc,
  xts_over_xts,
};

// How a driver with `driver` serves `mode` in `direction`.
OffloadForm offload_form(CipherMode mode, AlgMode driver, Direction direction);

// A run of whole sectors.
struct SectorRun {
  std::size_t sector_bytes = 0;  // a multiple of 512
  Bytes ivs;                     // 16 bytes a sector: CBC's IV, or XTS's enciphered tweak T[0]
  Bytes long_tweak;              // xts_over_xts: U[0], 16 bytes; otherwise unused
};

// The IV that the driver's operation over `run` begins with (for cbc_sectors: over its first
// sector). All zeros where the form has none; for xts_over_xts the driver enciphers it to U[0].
std::array<std::byte, kCipherBlockBytes> operation_iv(OffloadForm form, const SectorRun& run);

// Makes `sent`, what the driver is sent, from `source`.
// REQUIRES: form is not none; source and sent as long as the run, equal or disjoint.
void prepare_run(OffloadForm form, const SectorRun& run, Bytes source, MutableBytes sent);

// Makes `target`, the run ciphered, from what the driver was sent and what it answered.
// REQUIRES: as above; target disjoint from sent, equal to or disjoint from `answer`.
void mend_run(OffloadForm form, const SectorRun& run, Bytes sent, Bytes answer,
              MutableBytes target);

// The same for sector number `index` of the run alone: `target` is one sector.
void mend_sector(OffloadForm form, const SectorRun& run, std::size_t index, Bytes sent,
                 Bytes answer, MutableBytes target);

}  // namespace cryptimg
