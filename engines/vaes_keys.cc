// SPDX-License-Identifier: GPL-3.0-or-later
//
// AES key expansion with AES-NI (FIPS 197, section 5.2), constant time. HERMETIC: see
// vaes_kernels.h.
#include <immintrin.h>

#include "engines/vaes_kernels.h"

namespace cryptimg {
namespace {

// SubWord of a word: AESKEYGENASSIST puts it into the lowest word, from word 1 of its source.
uint32_t sub_word(uint32_t word) {
  const __m128i source = _mm_set_epi32(0, 0, static_cast<int>(word), 0);
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_aeskeygenassist_si128(source, 0)));
}

// RotWord of a little-endian word.
uint32_t rot_word(uint32_t word) {
  return (word >> 8) | (word << 24);
}

uint32_t load_word(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}

void store_word(uint8_t* p, uint32_t word) {
  for (int i = 0; i < 4; ++i) {
    p[i] = static_cast<uint8_t>(word >> (8 * i));
  }
}

}  // namespace

unsigned vaes_expand_key(const uint8_t* key, size_t key_bytes, uint8_t* encrypt_keys,
                         uint8_t* decrypt_keys) {
  const size_t key_words = key_bytes / 4;
  const unsigned rounds = static_cast<unsigned>(key_words) + 6;
  const size_t words = 4 * (key_words + 7);
  uint32_t rcon = 1;
  for (size_t i = 0; i < words; ++i) {
    if (i < key_words) {
      store_word(encrypt_keys + 4 * i, load_word(key + 4 * i));
      continue;
    }
    uint32_t word = load_word(encrypt_keys + 4 * (i - 1));
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): key_bytes is 16, 24 or 32
    if (i % key_words == 0) {
      word = sub_word(rot_word(word)) ^ rcon;
      rcon = (rcon << 1) ^ (rcon >> 7) * 0x11bU;
    } else if (key_words == 8 && i % key_words == 4) {
      word = sub_word(word);
    }
    store_word(encrypt_keys + 4 * i, word ^ load_word(encrypt_keys + 4 * (i - key_words)));
  }
  if (decrypt_keys != nullptr) {
    for (unsigned r = 0; r <= rounds; ++r) {
      __m128i round_key = _mm_loadu_si128(
          reinterpret_cast<const __m128i*>(encrypt_keys + kAesBlockBytes * (rounds - r)));
      if (r != 0 && r != rounds) {
        round_key = _mm_aesimc_si128(round_key);
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(decrypt_keys + kAesBlockBytes * r), round_key);
    }
  }
  return rounds;
}

}  // namespace cryptimg
