// SPDX-License-Identifier: GPL-3.0-or-later
//
// vaes: AES-XTS and AES-CBC with the vector AES instructions of newer x86-64 CPUs, for every spec
// that is served. The routines are in vaes_avx512.cc and vaes_avx2.cc; here they are chosen, given
// keys and fed with IVs.
//
// A session's round keys lie in guarded memory. IVs of a batch of sectors are made together: the
// counters are laid out, then enciphered in one go where the IV (or the XTS tweak) is a ciphertext.
// After each transform the IVs, the vector registers and the routines' stack are zeroed.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "core/cipher_engine.h"
#include "engines/cpu_features.h"
#include "engines/engine_checks.h"
#include "engines/vaes_kernels.h"

namespace cryptimg {
namespace {

constexpr std::size_t kBatchSectors = 256;
// More than the frames of the routines take.
constexpr std::size_t kXtsStackBytes = 1024;
constexpr std::size_t kCbcStackBytes = 3072;

const std::uint8_t* u8(const std::byte* bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}
std::uint8_t* u8(std::byte* bytes) {
  return reinterpret_cast<std::uint8_t*>(bytes);
}

// What a session ciphers with, in one guarded allocation.
struct Schedules {
  Secret memory;
  unsigned data_rounds = 0;
  unsigned iv_rounds = 0;  // 0: the IV is the counter itself

  [[nodiscard]] const std::uint8_t* encrypt_keys() const { return u8(memory.bytes().data()); }
  [[nodiscard]] const std::uint8_t* decrypt_keys() const {
    return encrypt_keys() + kMaxRoundKeyBytes;
  }
  [[nodiscard]] const std::uint8_t* iv_keys() const {
    return encrypt_keys() + 2 * kMaxRoundKeyBytes;
  }
};

Result<Schedules> make_schedules(const CipherSpec& spec, const Secret& key) {
  Schedules schedules;
  CRYPTIMG_ASSIGN_OR_RETURN(schedules.memory, Secret::allocate(3 * kMaxRoundKeyBytes));
  std::uint8_t* keys = u8(schedules.memory.mutable_bytes().data());
  std::uint8_t* iv_keys = keys + 2 * kMaxRoundKeyBytes;
  const std::uint8_t* volume_key = u8(key.bytes().data());
  const bool is_xts = spec.mode == CipherMode::aes_xts;
  const std::size_t data_key_bytes = is_xts ? key.size() / 2 : key.size();
  schedules.data_rounds =
      vaes_expand_key(volume_key, data_key_bytes, keys, keys + kMaxRoundKeyBytes);
  if (is_xts) {
    schedules.iv_rounds =
        vaes_expand_key(volume_key + data_key_bytes, data_key_bytes, iv_keys, nullptr);
  } else if (spec.iv == IvMode::essiv_sha256) {
    CRYPTIMG_ASSIGN_OR_RETURN(Secret salt, Secret::allocate(SHA256_DIGEST_LENGTH));
    if (EVP_Digest(volume_key, key.size(), u8(salt.mutable_bytes().data()), nullptr, EVP_sha256(),
                   nullptr) != 1) {
      return fail(Errc::unavailable,
                  "OpenSSL offers no SHA-256 here, check the providers in openssl.cnf");
    }
    schedules.iv_rounds = vaes_expand_key(u8(salt.bytes().data()), salt.size(), iv_keys, nullptr);
  }
  return schedules;
}

class VaesSession final : public CipherSession {
 public:
  VaesSession(const CipherSpec& spec, const VaesKernels& kernels, VaesLevel level,
              Schedules schedules)
      : spec_(spec),
        kernels_(kernels),
        transforms_(vaes_transforms(level)),
        schedules_(std::move(schedules)) {}

  Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                   MutableBytes target) noexcept override {
    const std::size_t sector_bytes = spec_.sector_size_bytes;
    if (!transform_is_valid(spec_, first_sector, source, target)) {
      wipe(target);
      return fail(Errc::invalid_argument);
    }
    const std::uint8_t* from = u8(source.data());
    std::uint8_t* to = u8(target.data());
    for (std::size_t left = source.size() / sector_bytes; left > 0;) {
      const std::size_t sectors = left < kBatchSectors ? left : kBatchSectors;
      make_ivs(first_sector, sectors);
      run(direction, sectors, from, to);
      first_sector += sectors;
      from += sectors * sector_bytes;
      to += sectors * sector_bytes;
      left -= sectors;
    }
    wipe(ivs_);
    kernels_.clear_registers();
    // What the routines spilled, round keys among it; CBC's with 16 chains at once spill most.
    wipe_stack(spec_.mode == CipherMode::aes_xts ? kXtsStackBytes : kCbcStackBytes);
    transforms_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }

 private:
  // Leaves the IVs, for XTS the enciphered tweaks, of a batch in ivs_.
  void make_ivs(std::uint64_t first_sector, std::size_t sectors) {
    const std::uint64_t units = spec_.sector_size_bytes / kIvUnitBytes;
    const std::uint64_t mask = spec_.iv == IvMode::plain ? UINT32_MAX : UINT64_MAX;
    for (std::size_t i = 0; i < sectors; ++i) {
      store_le64(&ivs_[i * kAesBlockBytes], ((first_sector + i) * units) & mask);
      store_le64(&ivs_[i * kAesBlockBytes + 8], 0);
    }
    if (schedules_.iv_rounds != 0) {
      kernels_.ecb_encrypt(schedules_.iv_keys(), schedules_.iv_rounds, u8(ivs_.data()),
                           u8(ivs_.data()), sectors);
    }
  }

  void run(Direction direction, std::size_t sectors, const std::uint8_t* source,
           std::uint8_t* target) {
    const bool is_xts = spec_.mode == CipherMode::aes_xts;
    const bool encrypts = direction == Direction::encrypt;
    const auto routine = encrypts ? (is_xts ? kernels_.xts_encrypt : kernels_.cbc_encrypt)
                                  : (is_xts ? kernels_.xts_decrypt : kernels_.cbc_decrypt);
    routine(encrypts ? schedules_.encrypt_keys() : schedules_.decrypt_keys(),
            schedules_.data_rounds, u8(ivs_.data()), spec_.sector_size_bytes, sectors, source,
            target);
  }

  const CipherSpec spec_;
  const VaesKernels& kernels_;
  std::atomic<std::uint64_t>& transforms_;
  const Schedules schedules_;
  alignas(64) std::array<std::byte, kBatchSectors * kAesBlockBytes> ivs_{};
};

class VaesEngine final : public CipherEngine {
 public:
  [[nodiscard]] std::string_view name() const override { return "vaes"; }
  [[nodiscard]] std::string description() const override {
    switch (level_) {
      case VaesLevel::avx512:
        return "vector AES instructions on 512-bit registers";
      case VaesLevel::avx2:
        return "vector AES instructions on 256-bit registers";
      case VaesLevel::none:
        break;
    }
    return "vector AES instructions";
  }

  [[nodiscard]] Status supports(const CipherSpec& spec) const override {
    CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
    if (level_ == VaesLevel::none) {
      return fail(Errc::unavailable,
                  "this CPU, its operating system or CRYPTIMG_CPU offers no VAES instructions");
    }
    return {};
  }

  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    CRYPTIMG_RETURN_IF_ERROR(supports(spec));
    CRYPTIMG_RETURN_IF_ERROR(check_key(spec, key));
    CRYPTIMG_ASSIGN_OR_RETURN(Schedules schedules, make_schedules(spec, key));
    return std::make_unique<VaesSession>(
        spec, level_ == VaesLevel::avx512 ? kVaesAvx512 : kVaesAvx2, level_, std::move(schedules));
  }

 private:
  const VaesLevel level_ = vaes_level();
};

}  // namespace

// Declared in registry.cc, the table of the engines.
std::shared_ptr<const CipherEngine> make_vaes_engine() {
  return std::make_shared<VaesEngine>();
}

}  // namespace cryptimg
