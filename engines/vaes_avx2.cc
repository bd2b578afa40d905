// SPDX-License-Identifier: GPL-3.0-or-later
//
// AES-XTS and AES-CBC with VAES on 256-bit registers, for CPUs that have VAES but not AVX-512.
// HERMETIC: see vaes_kernels.h. The methods are those of vaes_avx512.cc at half the width: two
// blocks to a register, eight registers (16 blocks) in flight, tweaks kept in the L1 cache since
// there are only sixteen registers.
#include <immintrin.h>

#include "engines/vaes_kernels.h"

namespace cryptimg {
namespace {

constexpr size_t kStepBytes = 256;
constexpr size_t kLanes = 8;  // registers in flight
constexpr size_t kVectorBytes = 32;
constexpr size_t kLineBytes = 64;

#define VAES_INLINE inline __attribute__((always_inline))

VAES_INLINE __m128i load_block(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
VAES_INLINE __m256i load(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
VAES_INLINE void store(uint8_t* p, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
VAES_INLINE __m256i round_key(const uint8_t* keys, size_t round) {
  return _mm256_broadcastsi128_si256(load_block(keys + 16 * round));
}

enum class Way { encrypt, decrypt };

// N registers through all rounds.
template <Way way, size_t kRounds, size_t N>
VAES_INLINE void cipher(const uint8_t* keys, __m256i (&s)[N]) {
  const __m256i first = round_key(keys, 0);
#pragma GCC unroll 8
  for (size_t i = 0; i < N; ++i) {
    s[i] = _mm256_xor_si256(s[i], first);
  }
#pragma GCC unroll 16
  for (size_t r = 1; r < kRounds; ++r) {
    const __m256i key = round_key(keys, r);
#pragma GCC unroll 8
    for (size_t i = 0; i < N; ++i) {
      s[i] =
          way == Way::encrypt ? _mm256_aesenc_epi128(s[i], key) : _mm256_aesdec_epi128(s[i], key);
    }
  }
  const __m256i last = round_key(keys, kRounds);
#pragma GCC unroll 8
  for (size_t i = 0; i < N; ++i) {
    s[i] = way == Way::encrypt ? _mm256_aesenclast_epi128(s[i], last)
                               : _mm256_aesdeclast_epi128(s[i], last);
  }
}

// t a^(8 kBytes) in both blocks.
template <int kBytes>
VAES_INLINE __m256i times_alpha_bytes(__m256i t, __m256i poly) {
  const __m256i out = _mm256_bsrli_epi128(t, 16 - kBytes);
  return _mm256_xor_si256(_mm256_bslli_epi128(t, kBytes),
                          _mm256_clmulepi64_epi128(out, poly, 0x00));
}

// t a^kBits in both blocks, kBits below 64.
template <int kBits>
VAES_INLINE __m256i times_alpha_bits(__m256i t, __m256i poly) {
  const __m256i out = _mm256_srli_epi64(t, 64 - kBits);
  return _mm256_xor_si256(
      _mm256_xor_si256(_mm256_slli_epi64(t, kBits), _mm256_bslli_epi128(out, 8)),
      _mm256_clmulepi64_epi128(out, poly, 0x01));
}

template <Way way, size_t kRounds>
void xts(const uint8_t* keys, const uint8_t* tweaks, size_t sector_bytes, size_t sectors,
         const uint8_t* source, uint8_t* target) {
  const __m256i poly = _mm256_broadcastsi128_si256(_mm_set_epi64x(0, 0x87));
  const size_t steps = sector_bytes / kStepBytes;
  alignas(32) __m256i t[kLanes];
  for (size_t sector = 0; sector < sectors; ++sector) {
    const __m256i both = _mm256_broadcastsi128_si256(load_block(tweaks + 16 * sector));
    t[0] = _mm256_blend_epi32(both, times_alpha_bits<1>(both, poly), 0xf0);
    t[1] = times_alpha_bits<2>(t[0], poly);
    t[2] = times_alpha_bits<4>(t[0], poly);
    t[3] = times_alpha_bits<4>(t[1], poly);
    t[4] = times_alpha_bytes<1>(t[0], poly);
    t[5] = times_alpha_bytes<1>(t[1], poly);
    t[6] = times_alpha_bytes<1>(t[2], poly);
    t[7] = times_alpha_bytes<1>(t[3], poly);
    for (size_t step = 0; step < steps; ++step) {
      __m256i s[kLanes];
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        s[i] = _mm256_xor_si256(load(source + kVectorBytes * i), t[i]);
      }
      cipher<way, kRounds>(keys, s);
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        store(target + kVectorBytes * i, _mm256_xor_si256(s[i], t[i]));
        t[i] = times_alpha_bytes<2>(t[i], poly);
      }
      source += kStepBytes;
      target += kStepBytes;
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < kLanes; ++i) {
    t[i] = _mm256_setzero_si256();
  }
  __asm__ volatile("" : : "r"(t) : "memory");  // keeps the zeroing
}

template <size_t kRounds>
void cbc_decrypt(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes, size_t sectors,
                 const uint8_t* source, uint8_t* target) {
  const size_t steps = sector_bytes / kStepBytes;
  for (size_t sector = 0; sector < sectors; ++sector) {
    __m256i previous = _mm256_broadcastsi128_si256(load_block(ivs + 16 * sector));
    for (size_t step = 0; step < steps; ++step) {
      // Each block's predecessor is taken before anything is stored: source may be target.
      __m256i s[kLanes];
      __m256i before[kLanes];
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        s[i] = load(source + kVectorBytes * i);
        before[i] = _mm256_permute2x128_si256(previous, s[i], 0x21);
        previous = s[i];
      }
      cipher<Way::decrypt, kRounds>(keys, s);
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        store(target + kVectorBytes * i, _mm256_xor_si256(s[i], before[i]));
      }
      source += kStepBytes;
      target += kStepBytes;
    }
  }
}

// Up to 2 kPairs sectors side by side, one cache line of each at a time, transposed through a small
// buffer that stays in the L1 cache. Where there are fewer sectors, the last one fills the free
// places: it is read before it is written in every step, and the same bytes are stored twice.
template <size_t kRounds, size_t kPairs>
void cbc_encrypt_side_by_side(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes,
                              size_t sectors, const uint8_t* source, uint8_t* target) {
  size_t offset[2 * kPairs];
  __m256i chain[kPairs];
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    offset[i] = (i < sectors ? i : sectors - 1) * sector_bytes;
  }
  for (size_t p = 0; p < kPairs; ++p) {
    const size_t first = 2 * p < sectors ? 2 * p : sectors - 1;
    const size_t second = 2 * p + 1 < sectors ? 2 * p + 1 : sectors - 1;
    chain[p] = _mm256_inserti128_si256(_mm256_castsi128_si256(load_block(ivs + 16 * first)),
                                       load_block(ivs + 16 * second), 1);
  }
  alignas(32) __m256i blocks[4][kPairs];
  for (size_t line = 0; line < sector_bytes; line += kLineBytes) {
#pragma GCC unroll 8
    for (size_t p = 0; p < kPairs; ++p) {
      const uint8_t* first = source + offset[2 * p] + line;
      const uint8_t* second = source + offset[2 * p + 1] + line;
#pragma GCC unroll 2
      for (size_t half = 0; half < 2; ++half) {
        const __m256i a = load(first + kVectorBytes * half);
        const __m256i b = load(second + kVectorBytes * half);
        blocks[2 * half][p] = _mm256_permute2x128_si256(a, b, 0x20);
        blocks[2 * half + 1][p] = _mm256_permute2x128_si256(a, b, 0x31);
      }
    }
#pragma GCC unroll 4
    for (size_t b = 0; b < 4; ++b) {
#pragma GCC unroll 8
      for (size_t p = 0; p < kPairs; ++p) {
        chain[p] = _mm256_xor_si256(chain[p], blocks[b][p]);
      }
      cipher<Way::encrypt, kRounds>(keys, chain);
#pragma GCC unroll 8
      for (size_t p = 0; p < kPairs; ++p) {
        blocks[b][p] = chain[p];
      }
    }
#pragma GCC unroll 8
    for (size_t p = 0; p < kPairs; ++p) {
#pragma GCC unroll 2
      for (size_t half = 0; half < 2; ++half) {
        const __m256i even = blocks[2 * half][p];
        const __m256i odd = blocks[2 * half + 1][p];
        store(target + offset[2 * p] + line + kVectorBytes * half,
              _mm256_permute2x128_si256(even, odd, 0x20));
        store(target + offset[2 * p + 1] + line + kVectorBytes * half,
              _mm256_permute2x128_si256(even, odd, 0x31));
      }
    }
  }
}

template <size_t kRounds>
void cbc_encrypt(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes, size_t sectors,
                 const uint8_t* source, uint8_t* target) {
  while (sectors > 0) {
    const size_t now = sectors < 16 ? sectors : 16;
    if (now > 8) {
      cbc_encrypt_side_by_side<kRounds, 8>(keys, ivs, sector_bytes, now, source, target);
    } else if (now > 2) {
      cbc_encrypt_side_by_side<kRounds, 4>(keys, ivs, sector_bytes, now, source, target);
    } else {
      cbc_encrypt_side_by_side<kRounds, 1>(keys, ivs, sector_bytes, now, source, target);
    }
    sectors -= now;
    ivs += 16 * now;
    source += sector_bytes * now;
    target += sector_bytes * now;
  }
}

template <size_t kRounds>
void ecb_encrypt(const uint8_t* keys, const uint8_t* source, uint8_t* target, size_t blocks) {
  size_t i = 0;
  for (; i + 2 * kLanes <= blocks; i += 2 * kLanes) {
    __m256i s[kLanes];
#pragma GCC unroll 8
    for (size_t k = 0; k < kLanes; ++k) {
      s[k] = load(source + 16 * i + kVectorBytes * k);
    }
    cipher<Way::encrypt, kRounds>(keys, s);
#pragma GCC unroll 8
    for (size_t k = 0; k < kLanes; ++k) {
      store(target + 16 * i + kVectorBytes * k, s[k]);
    }
  }
  for (; i < blocks; ++i) {
    __m256i s[1] = {_mm256_castsi128_si256(load_block(source + 16 * i))};
    cipher<Way::encrypt, kRounds>(keys, s);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + 16 * i), _mm256_castsi256_si128(s[0]));
  }
}

using SectorRoutine = void (*)(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes,
                               size_t sectors, const uint8_t* source, uint8_t* target);

// The routine for 10, 12 or 14 rounds.
template <SectorRoutine k10, SectorRoutine k12, SectorRoutine k14>
void by_rounds(const uint8_t* keys, unsigned rounds, const uint8_t* ivs, size_t sector_bytes,
               size_t sectors, const uint8_t* source, uint8_t* target) {
  const SectorRoutine routine = rounds == 14 ? k14 : rounds == 12 ? k12 : k10;
  routine(keys, ivs, sector_bytes, sectors, source, target);
}

void ecb_encrypt_entry(const uint8_t* keys, unsigned rounds, const uint8_t* source, uint8_t* target,
                       size_t blocks) {
  rounds == 14   ? ecb_encrypt<14>(keys, source, target, blocks)
  : rounds == 12 ? ecb_encrypt<12>(keys, source, target, blocks)
                 : ecb_encrypt<10>(keys, source, target, blocks);
}

void clear_registers() {
  _mm256_zeroall();
}

}  // namespace

const VaesKernels kVaesAvx2 = {
    "avx2",
    ecb_encrypt_entry,
    by_rounds<xts<Way::encrypt, 10>, xts<Way::encrypt, 12>, xts<Way::encrypt, 14>>,
    by_rounds<xts<Way::decrypt, 10>, xts<Way::decrypt, 12>, xts<Way::decrypt, 14>>,
    by_rounds<cbc_encrypt<10>, cbc_encrypt<12>, cbc_encrypt<14>>,
    by_rounds<cbc_decrypt<10>, cbc_decrypt<12>, cbc_decrypt<14>>,
    clear_registers,
};

}  // namespace cryptimg
