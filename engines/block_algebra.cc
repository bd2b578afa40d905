// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/block_algebra.h"

#include <cstring>

namespace cryptimg {
namespace {

// One block as two words, little endian.
struct Block {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

Block load(const std::byte* bytes) {
  Block block;
  std::memcpy(&block.low, bytes, sizeof block.low);
  std::memcpy(&block.high, bytes + sizeof block.low, sizeof block.high);
  return block;
}

void store(std::byte* bytes, const Block& block) {
  std::memcpy(bytes, &block.low, sizeof block.low);
  std::memcpy(bytes + sizeof block.low, &block.high, sizeof block.high);
}

Block operator^(const Block& a, const Block& b) {
  return {a.low ^ b.low, a.high ^ b.high};
}

// The tweak of the next block: multiplied by x in GF(2^128) (IEEE 1619, 5.2). No branch on data.
Block next_tweak(const Block& tweak) {
  constexpr std::uint64_t kPolynomial = 0x87;
  constexpr unsigned kTopBit = 63;
  const std::uint64_t carry = std::uint64_t{0} - (tweak.high >> kTopBit);
  return {(tweak.low << 1U) ^ (carry & kPolynomial), (tweak.high << 1U) | (tweak.low >> kTopBit)};
}

// target = source xor the tweaks that follow from `tweak`.
void xor_tweaks(Block tweak, Bytes source, MutableBytes target) {
  for (std::size_t at = 0; at < source.size(); at += kCipherBlockBytes) {
    store(target.data() + at, load(source.data() + at) ^ tweak);
    tweak = next_tweak(tweak);
  }
}

const std::byte* iv_of(const SectorRun& run, std::size_t index) {
  return run.ivs.data() + index * kCipherBlockBytes;
}

// xor_tweaks over the sectors of a run, each with its own.
void xor_sector_tweaks(const SectorRun& run, Bytes source, MutableBytes target) {
  for (std::size_t at = 0, index = 0; at < source.size(); at += run.sector_bytes, ++index) {
    xor_tweaks(load(iv_of(run, index)), source.subspan(at, run.sector_bytes),
               target.subspan(at, run.sector_bytes));
  }
}

// U at the start of sector `index`.
Block long_tweak_at(const SectorRun& run, std::size_t index) {
  Block tweak = load(run.long_tweak.data());
  for (std::size_t i = 0; i < index * run.sector_bytes / kCipherBlockBytes; ++i) {
    tweak = next_tweak(tweak);
  }
  return tweak;
}

// What CBC, or XTS over CBC, chained into the first block of sector `index`.
Block chained_before(const SectorRun& run, std::size_t index, Bytes sent, const Block& first) {
  return index == 0 ? first : load(sent.data() + index * run.sector_bytes - kCipherBlockBytes);
}

}  // namespace

OffloadForm offload_form(CipherMode mode, AlgMode driver, Direction direction) {
  const bool decrypts = direction == Direction::decrypt;
  if (mode == CipherMode::aes_cbc) {
    switch (driver) {
      case AlgMode::cbc:
        return decrypts ? OffloadForm::cbc_run : OffloadForm::cbc_sectors;
      case AlgMode::ecb:
        return decrypts ? OffloadForm::cbc_over_ecb : OffloadForm::none;
      case AlgMode::xts:
        return OffloadForm::none;
    }
  }
  switch (driver) {
    case AlgMode::cbc:
      return decrypts ? OffloadForm::xts_over_cbc : OffloadForm::none;
    case AlgMode::ecb:
      return OffloadForm::xts_over_ecb;
    case AlgMode::xts:
      break;
  }
  return OffloadForm::xts_over_xts;
}

std::array<std::byte, kCipherBlockBytes> operation_iv(OffloadForm form, const SectorRun& run) {
  std::array<std::byte, kCipherBlockBytes> iv{};
  if (form == OffloadForm::cbc_run || form == OffloadForm::cbc_sectors) {
    std::memcpy(iv.data(), run.ivs.data(), iv.size());
  }
  return iv;
}

void prepare_run(OffloadForm form, const SectorRun& run, Bytes source, MutableBytes sent) {
  switch (form) {
    case OffloadForm::xts_over_ecb:
    case OffloadForm::xts_over_cbc:
      xor_sector_tweaks(run, source, sent);
      return;
    case OffloadForm::xts_over_xts:
      xor_sector_tweaks(run, source, sent);
      xor_tweaks(load(run.long_tweak.data()), sent, sent);
      return;
    default:
      std::memmove(sent.data(), source.data(), source.size());
  }
}

void mend_sector(OffloadForm form, const SectorRun& run, std::size_t index, Bytes sent,
                 Bytes answer, MutableBytes target) {
  const std::size_t at = index * run.sector_bytes;
  const Bytes own = answer.subspan(at, run.sector_bytes);
  const Block iv = load(iv_of(run, index));
  switch (form) {
    case OffloadForm::cbc_run:
      std::memmove(target.data(), own.data(), own.size());
      if (index > 0) {
        store(target.data(), load(target.data()) ^ chained_before(run, index, sent, Block()) ^ iv);
      }
      return;
    case OffloadForm::cbc_over_ecb:
      store(target.data(), load(own.data()) ^ iv);
      for (std::size_t i = kCipherBlockBytes; i < own.size(); i += kCipherBlockBytes) {
        store(target.data() + i,
              load(own.data() + i) ^ load(sent.data() + at + i - kCipherBlockBytes));
      }
      return;
    case OffloadForm::xts_over_ecb:
      xor_tweaks(iv, own, target);
      return;
    case OffloadForm::xts_over_cbc: {
      Block tweak = iv;
      Block before = chained_before(run, index, sent, Block());
      for (std::size_t i = 0; i < own.size(); i += kCipherBlockBytes) {
        store(target.data() + i, load(own.data() + i) ^ before ^ tweak);
        before = load(sent.data() + at + i);
        tweak = next_tweak(tweak);
      }
      return;
    }
    case OffloadForm::xts_over_xts:
      xor_tweaks(long_tweak_at(run, index), own, target);
      xor_tweaks(iv, target, target);
      return;
    default:
      std::memmove(target.data(), own.data(), own.size());
  }
}

void mend_run(OffloadForm form, const SectorRun& run, Bytes sent, Bytes answer,
              MutableBytes target) {
  if (form == OffloadForm::xts_over_xts) {  // finding U anew for each sector would be quadratic
    xor_tweaks(load(run.long_tweak.data()), answer, target);
    xor_sector_tweaks(run, target, target);
    return;
  }
  for (std::size_t at = 0, index = 0; at < answer.size(); at += run.sector_bytes, ++index) {
    mend_sector(form, run, index, sent, answer, target.subspan(at, run.sector_bytes));
  }
}

}  // namespace cryptimg
