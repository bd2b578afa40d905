// SPDX-License-Identifier: GPL-3.0-or-later
//
// AES-XTS and AES-CBC with VAES on 512-bit registers. HERMETIC: see vaes_kernels.h.
//
// A register holds four blocks; eight registers (32 blocks, 512 bytes) are in flight, which hides
// the latency of AESENC. The smallest sector is one such step.
//
// XTS tweaks. The tweak of block j is T a^j in GF(2^128), a = x, reduced by x^128 = x^7+x^2+x+1
// (0x87). Multiplying by a^(8n) is a shift by n bytes, plus the n bytes shifted out times 0x87,
// which one carry-less multiplication does for four blocks at once. So from {T, Ta, Ta^2, Ta^3}
// the seven registers that follow are byte shifts of it and of its multiple by a^4, and the next 32
// blocks of a sector are byte shifts by 4.
//
// CBC encryption. A sector is a serial chain, so 16 sectors advance together, four to a register.
// Each step loads a whole cache line (four blocks) of each sector and transposes 4x4 blocks in
// registers: sectors of 4 KiB all fall into the same few cache sets, and a line touched once cannot
// be evicted between two uses.
#include <immintrin.h>

#include "engines/vaes_kernels.h"

namespace cryptimg {
namespace {

constexpr size_t kStepBytes = 512;
constexpr size_t kLanes = 8;  // registers in flight
constexpr size_t kVectorBytes = 64;

#define VAES_INLINE inline __attribute__((always_inline))

VAES_INLINE __m512i load(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
VAES_INLINE void store(uint8_t* p, __m512i v) {
  _mm512_storeu_si512(p, v);
}
VAES_INLINE __m512i round_key(const uint8_t* keys, size_t round) {
  return _mm512_broadcast_i32x4(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys + 16 * round)));
}
VAES_INLINE __m512i xor3(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

enum class Way { encrypt, decrypt };

// N registers through all rounds.
template <Way way, size_t kRounds, size_t N>
VAES_INLINE void cipher(const uint8_t* keys, __m512i (&s)[N]) {
  const __m512i first = round_key(keys, 0);
#pragma GCC unroll 8
  for (size_t i = 0; i < N; ++i) {
    s[i] = _mm512_xor_si512(s[i], first);
  }
#pragma GCC unroll 16
  for (size_t r = 1; r < kRounds; ++r) {
    const __m512i key = round_key(keys, r);
#pragma GCC unroll 8
    for (size_t i = 0; i < N; ++i) {
      s[i] =
          way == Way::encrypt ? _mm512_aesenc_epi128(s[i], key) : _mm512_aesdec_epi128(s[i], key);
    }
  }
  const __m512i last = round_key(keys, kRounds);
#pragma GCC unroll 8
  for (size_t i = 0; i < N; ++i) {
    s[i] = way == Way::encrypt ? _mm512_aesenclast_epi128(s[i], last)
                               : _mm512_aesdeclast_epi128(s[i], last);
  }
}

// t a^(8 bytes) in each of the four blocks.
template <int kBytes>
VAES_INLINE __m512i times_alpha_bytes(__m512i t, __m512i poly) {
  const __m512i out = _mm512_bsrli_epi128(t, 16 - kBytes);
  return _mm512_xor_si512(_mm512_bslli_epi128(t, kBytes),
                          _mm512_clmulepi64_epi128(out, poly, 0x00));
}

// t a^4 in each of the four blocks.
VAES_INLINE __m512i times_alpha_4(__m512i t, __m512i poly) {
  const __m512i out = _mm512_srli_epi64(t, 60);
  return xor3(_mm512_slli_epi64(t, 4), _mm512_bslli_epi128(out, 8),
              _mm512_clmulepi64_epi128(out, poly, 0x01));
}

// {T, T a, T a^2, T a^3} from one enciphered tweak.
VAES_INLINE __m512i spread_tweak(const uint8_t* tweak, __m512i poly) {
  const __m512i t =
      _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(tweak)));
  const __m512i left = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
  const __m512i right = _mm512_set_epi64(61, 61, 62, 62, 63, 63, 64, 64);
  const __m512i out = _mm512_srlv_epi64(t, right);
  return xor3(_mm512_sllv_epi64(t, left), _mm512_bslli_epi128(out, 8),
              _mm512_clmulepi64_epi128(out, poly, 0x01));
}

template <Way way, size_t kRounds>
void xts(const uint8_t* keys, const uint8_t* tweaks, size_t sector_bytes, size_t sectors,
         const uint8_t* source, uint8_t* target) {
  const __m512i poly = _mm512_broadcast_i32x4(_mm_set_epi64x(0, 0x87));
  const size_t steps = sector_bytes / kStepBytes;
  for (size_t sector = 0; sector < sectors; ++sector) {
    __m512i t[kLanes];
    t[0] = spread_tweak(tweaks + 16 * sector, poly);
    t[1] = times_alpha_4(t[0], poly);
    t[2] = times_alpha_bytes<1>(t[0], poly);
    t[3] = times_alpha_bytes<1>(t[1], poly);
    t[4] = times_alpha_bytes<2>(t[0], poly);
    t[5] = times_alpha_bytes<2>(t[1], poly);
    t[6] = times_alpha_bytes<3>(t[0], poly);
    t[7] = times_alpha_bytes<3>(t[1], poly);
    for (size_t step = 0; step < steps; ++step) {
      __m512i s[kLanes];
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        s[i] = _mm512_xor_si512(load(source + kVectorBytes * i), t[i]);
      }
      cipher<way, kRounds>(keys, s);
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        store(target + kVectorBytes * i, _mm512_xor_si512(s[i], t[i]));
        t[i] = times_alpha_bytes<4>(t[i], poly);
      }
      source += kStepBytes;
      target += kStepBytes;
    }
  }
}

template <size_t kRounds>
void cbc_decrypt(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes, size_t sectors,
                 const uint8_t* source, uint8_t* target) {
  const size_t steps = sector_bytes / kStepBytes;
  for (size_t sector = 0; sector < sectors; ++sector) {
    __m512i previous = _mm512_broadcast_i32x4(
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(ivs + 16 * sector)));
    for (size_t step = 0; step < steps; ++step) {
      // Each block's predecessor is taken before anything is stored: source may be target.
      __m512i s[kLanes];
      __m512i before[kLanes];
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        s[i] = load(source + kVectorBytes * i);
        before[i] = _mm512_alignr_epi64(s[i], previous, 6);
        previous = s[i];
      }
      cipher<Way::decrypt, kRounds>(keys, s);
#pragma GCC unroll 8
      for (size_t i = 0; i < kLanes; ++i) {
        store(target + kVectorBytes * i, _mm512_xor_si512(s[i], before[i]));
      }
      source += kStepBytes;
      target += kStepBytes;
    }
  }
}

// Four registers of four blocks, transposed: row i of the result holds block i of each.
VAES_INLINE void transpose(__m512i& a, __m512i& b, __m512i& c, __m512i& d) {
  const __m512i ab_low = _mm512_shuffle_i64x2(a, b, 0x44);   // a0 a1 b0 b1
  const __m512i cd_low = _mm512_shuffle_i64x2(c, d, 0x44);   // c0 c1 d0 d1
  const __m512i ab_high = _mm512_shuffle_i64x2(a, b, 0xee);  // a2 a3 b2 b3
  const __m512i cd_high = _mm512_shuffle_i64x2(c, d, 0xee);
  a = _mm512_shuffle_i64x2(ab_low, cd_low, 0x88);  // a0 b0 c0 d0
  b = _mm512_shuffle_i64x2(ab_low, cd_low, 0xdd);
  c = _mm512_shuffle_i64x2(ab_high, cd_high, 0x88);
  d = _mm512_shuffle_i64x2(ab_high, cd_high, 0xdd);
}

// One line of four sectors, the i-th at address at(i): block b of each, in blocks[b].
template <typename At>
VAES_INLINE void load_line(At at, __m512i (&blocks)[4]) {
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    blocks[i] = load(at(i));
  }
  transpose(blocks[0], blocks[1], blocks[2], blocks[3]);
}

template <typename At>
VAES_INLINE void store_line(At at, __m512i (&blocks)[4]) {
  transpose(blocks[0], blocks[1], blocks[2], blocks[3]);
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    store(at(i), blocks[i]);
  }
}

// One line (four blocks) of each group, every group's chain advancing side by side.
template <size_t kRounds, size_t kGroups>
VAES_INLINE void chain_line(const uint8_t* keys, __m512i (&chain)[kGroups],
                            __m512i (&blocks)[kGroups][4]) {
#pragma GCC unroll 4
  for (size_t b = 0; b < 4; ++b) {
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; ++g) {
      chain[g] = _mm512_xor_si512(chain[g], blocks[g][b]);
    }
    cipher<Way::encrypt, kRounds>(keys, chain);
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; ++g) {
      blocks[g][b] = chain[g];
    }
  }
}

// A positive multiple of 16 sectors, 16 at a time in four groups. Group g runs kSkewLines g lines
// behind the first and goes on to its next sectors without waiting for the others: so no more than
// four sectors' lines fall into one cache set at a time, and no load follows closely on a store to
// another sector's same offset, which the CPU would take for a dependency where sectors are 4 KiB
// apart. What a group does before its first and after its last line goes to `idle`.
template <size_t kRounds>
void cbc_encrypt_sixteens(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes,
                          size_t sectors, const uint8_t* source, uint8_t* target) {
  constexpr size_t kGroups = 4;
  constexpr size_t kSkewLines = 3;
  alignas(64) uint8_t idle[kVectorBytes] = {};
  __m512i chain[kGroups] = {};
  const size_t lines = sector_bytes / kVectorBytes;
  const size_t total_lines = sectors / 16 * lines;
  // Of each group: the line it is at, `lines` when it has to start anew, and its first sector.
  size_t line[kGroups] = {lines, lines, lines, lines};
  size_t offset[kGroups] = {0, 4 * sector_bytes, 8 * sector_bytes, 12 * sector_bytes};
  for (size_t step = 0; step < total_lines + kSkewLines * (kGroups - 1); ++step) {
    __m512i blocks[kGroups][4];
    size_t at[kGroups];
    bool active[kGroups];
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; ++g) {
      const size_t done = step - kSkewLines * g;  // wraps around before the group's first line
      active[g] = done < total_lines;
      if (active[g] && line[g] == lines) {
        line[g] = 0;
        offset[g] += done == 0 ? 0 : 16 * sector_bytes;
        chain[g] = load(ivs + offset[g] / sector_bytes * 16);
      }
      at[g] = offset[g] + kVectorBytes * line[g];
      load_line([&](size_t i) { return active[g] ? source + at[g] + sector_bytes * i : idle; },
                blocks[g]);
      line[g] += active[g] ? 1 : 0;
    }
    chain_line<kRounds>(keys, chain, blocks);
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; ++g) {
      store_line([&](size_t i) { return active[g] ? target + at[g] + sector_bytes * i : idle; },
                 blocks[g]);
    }
  }
}

// Up to 4 kGroups sectors. Where there are fewer, the last one fills the free places: it is read
// before it is written in every step, and the same bytes are stored twice.
template <size_t kRounds, size_t kGroups>
void cbc_encrypt_few(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes, size_t sectors,
                     const uint8_t* source, uint8_t* target) {
  const auto place = [&](size_t g, size_t i) {
    return 4 * g + i < sectors ? 4 * g + i : sectors - 1;
  };
  __m512i chain[kGroups];
#pragma GCC unroll 4
  for (size_t g = 0; g < kGroups; ++g) {
    const auto iv = [&](size_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(ivs + 16 * place(g, i)));
    };
    chain[g] = _mm512_inserti64x2(_mm512_castsi128_si512(iv(0)), iv(1), 1);
    chain[g] = _mm512_inserti64x2(chain[g], iv(2), 2);
    chain[g] = _mm512_inserti64x2(chain[g], iv(3), 3);
  }
  for (size_t line = 0; line < sector_bytes; line += kVectorBytes) {
    __m512i blocks[kGroups][4];
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; ++g) {
      load_line([&](size_t i) { return source + place(g, i) * sector_bytes + line; }, blocks[g]);
    }
    chain_line<kRounds>(keys, chain, blocks);
#pragma GCC unroll 4
    for (size_t g = 0; g < kGroups; ++g) {
      store_line([&](size_t i) { return target + place(g, i) * sector_bytes + line; }, blocks[g]);
    }
  }
}

template <size_t kRounds>
void cbc_encrypt_one(const uint8_t* keys, const uint8_t* iv, size_t sector_bytes,
                     const uint8_t* source, uint8_t* target) {
  const auto key = [&](size_t r) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(keys + 16 * r));
  };
  __m128i chain = _mm_loadu_si128(reinterpret_cast<const __m128i*>(iv));
  for (size_t i = 0; i < sector_bytes; i += 16) {
    chain = _mm_xor_si128(chain, _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    chain = _mm_xor_si128(chain, key(0));
#pragma GCC unroll 16
    for (size_t r = 1; r < kRounds; ++r) {
      chain = _mm_aesenc_si128(chain, key(r));
    }
    chain = _mm_aesenclast_si128(chain, key(kRounds));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), chain);
  }
}

template <size_t kRounds>
void cbc_encrypt(const uint8_t* keys, const uint8_t* ivs, size_t sector_bytes, size_t sectors,
                 const uint8_t* source, uint8_t* target) {
  const size_t whole = sectors - sectors % 16;
  if (whole > 0) {
    cbc_encrypt_sixteens<kRounds>(keys, ivs, sector_bytes, whole, source, target);
  }
  const size_t rest = sectors - whole;
  ivs += 16 * whole;
  source += sector_bytes * whole;
  target += sector_bytes * whole;
  if (rest > 12) {
    cbc_encrypt_few<kRounds, 4>(keys, ivs, sector_bytes, rest, source, target);
  } else if (rest > 8) {
    cbc_encrypt_few<kRounds, 3>(keys, ivs, sector_bytes, rest, source, target);
  } else if (rest > 4) {
    cbc_encrypt_few<kRounds, 2>(keys, ivs, sector_bytes, rest, source, target);
  } else if (rest > 1) {
    cbc_encrypt_few<kRounds, 1>(keys, ivs, sector_bytes, rest, source, target);
  } else if (rest == 1) {
    cbc_encrypt_one<kRounds>(keys, ivs, sector_bytes, source, target);
  }
}

template <size_t kRounds>
void ecb_encrypt(const uint8_t* keys, const uint8_t* source, uint8_t* target, size_t blocks) {
  for (size_t i = 0; i < blocks; i += 4 * kLanes) {
    __m512i s[kLanes];
    __mmask8 present[kLanes];  // two bits a block; those beyond the last are left alone
#pragma GCC unroll 8
    for (size_t k = 0; k < kLanes; ++k) {
      const size_t at = i + 4 * k;
      const size_t here = at + 4 <= blocks ? 4 : at < blocks ? blocks - at : 0;
      present[k] = static_cast<__mmask8>((1U << (2 * here)) - 1U);
      s[k] = _mm512_maskz_loadu_epi64(present[k], source + 16 * at);
    }
    cipher<Way::encrypt, kRounds>(keys, s);
#pragma GCC unroll 8
    for (size_t k = 0; k < kLanes; ++k) {
      _mm512_mask_storeu_epi64(target + 16 * (i + 4 * k), present[k], s[k]);
    }
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
  (rounds == 14   ? ecb_encrypt<14>
   : rounds == 12 ? ecb_encrypt<12>
                  : ecb_encrypt<10>)(keys, source, target, blocks);
}

void clear_registers() {
  // vzeroall reaches registers 0 to 15 only.
  __asm__ volatile(
      "vzeroall\n\t"
      "vpxorq %%zmm16, %%zmm16, %%zmm16\n\tvpxorq %%zmm17, %%zmm17, %%zmm17\n\t"
      "vpxorq %%zmm18, %%zmm18, %%zmm18\n\tvpxorq %%zmm19, %%zmm19, %%zmm19\n\t"
      "vpxorq %%zmm20, %%zmm20, %%zmm20\n\tvpxorq %%zmm21, %%zmm21, %%zmm21\n\t"
      "vpxorq %%zmm22, %%zmm22, %%zmm22\n\tvpxorq %%zmm23, %%zmm23, %%zmm23\n\t"
      "vpxorq %%zmm24, %%zmm24, %%zmm24\n\tvpxorq %%zmm25, %%zmm25, %%zmm25\n\t"
      "vpxorq %%zmm26, %%zmm26, %%zmm26\n\tvpxorq %%zmm27, %%zmm27, %%zmm27\n\t"
      "vpxorq %%zmm28, %%zmm28, %%zmm28\n\tvpxorq %%zmm29, %%zmm29, %%zmm29\n\t"
      "vpxorq %%zmm30, %%zmm30, %%zmm30\n\tvpxorq %%zmm31, %%zmm31, %%zmm31"
      :
      :
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20",
        "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",
        "xmm31");
}

}  // namespace

const VaesKernels kVaesAvx512 = {
    "avx512",
    ecb_encrypt_entry,
    by_rounds<xts<Way::encrypt, 10>, xts<Way::encrypt, 12>, xts<Way::encrypt, 14>>,
    by_rounds<xts<Way::decrypt, 10>, xts<Way::decrypt, 12>, xts<Way::decrypt, 14>>,
    by_rounds<cbc_encrypt<10>, cbc_encrypt<12>, cbc_encrypt<14>>,
    by_rounds<cbc_decrypt<10>, cbc_decrypt<12>, cbc_decrypt<14>>,
    clear_registers,
};

}  // namespace cryptimg
