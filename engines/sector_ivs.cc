// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/sector_ivs.h"

#include <array>
#include <cstring>
#include <utility>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "engines/block_algebra.h"

namespace cryptimg {
namespace {

struct ContextDeleter {
  // Cleanses the key schedule.
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};

unsigned char* uchars(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* uchars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

}  // namespace

struct SectorIvs::Cipher {
  std::unique_ptr<EVP_CIPHER_CTX, ContextDeleter> context{EVP_CIPHER_CTX_new()};

  // AES-ECB under `key`, of 16 or 32 bytes.
  bool set_key(Bytes key) {
    constexpr std::size_t kShortKeyBytes = 16;
    const EVP_CIPHER* cipher = key.size() == kShortKeyBytes ? EVP_aes_128_ecb() : EVP_aes_256_ecb();
    return context &&
           EVP_EncryptInit_ex(context.get(), cipher, nullptr, uchars(key.data()), nullptr) == 1 &&
           EVP_CIPHER_CTX_set_padding(context.get(), 0) == 1;
  }

  bool encrypt_in_place(MutableBytes blocks) {
    int written = 0;
    const int size = static_cast<int>(blocks.size());
    return EVP_EncryptUpdate(context.get(), uchars(blocks.data()), &written, uchars(blocks.data()),
                             size) == 1 &&
           written == size;
  }
};

SectorIvs::SectorIvs(const CipherSpec& spec, std::unique_ptr<Cipher> cipher)
    : spec_(spec), cipher_(std::move(cipher)) {}
SectorIvs::SectorIvs(SectorIvs&&) noexcept = default;
SectorIvs& SectorIvs::operator=(SectorIvs&&) noexcept = default;
SectorIvs::~SectorIvs() = default;

Result<SectorIvs> SectorIvs::create(const CipherSpec& spec, const Secret& key) {
  std::unique_ptr<Cipher> cipher;
  bool ok = true;
  if (spec.mode == CipherMode::aes_xts) {
    cipher = std::make_unique<Cipher>();
    ok = cipher->set_key(key.bytes().subspan(key.size() / 2));
  } else if (spec.iv == IvMode::essiv_sha256) {
    cipher = std::make_unique<Cipher>();
    CRYPTIMG_ASSIGN_OR_RETURN(Secret salt, Secret::allocate(SHA256_DIGEST_LENGTH));
    ok = EVP_Digest(key.bytes().data(), key.size(), uchars(salt.mutable_bytes().data()), nullptr,
                    EVP_sha256(), nullptr) == 1 &&
         cipher->set_key(salt.bytes());
  }
  if (!ok) {
    return fail(Errc::unavailable, "OpenSSL refuses to make IVs for " + cipher_name(spec));
  }
  return SectorIvs(spec, std::move(cipher));
}

bool SectorIvs::fill(std::uint64_t first_sector, MutableBytes ivs) noexcept {
  const std::uint64_t units = spec_.sector_size_bytes / kIvUnitBytes;
  const std::uint64_t mask = spec_.iv == IvMode::plain ? UINT32_MAX : UINT64_MAX;
  std::uint64_t counter = first_sector * units;
  for (std::size_t at = 0; at < ivs.size(); at += kCipherBlockBytes) {
    store_le64(ivs.data() + at, counter & mask);
    store_le64(ivs.data() + at + sizeof counter, 0);
    counter += units;
  }
  return cipher_ == nullptr || cipher_->encrypt_in_place(ivs);
}

bool SectorIvs::zero_tweak(MutableBytes block) noexcept {
  std::memset(block.data(), 0, block.size());
  return cipher_ != nullptr && cipher_->encrypt_in_place(block);
}

}  // namespace cryptimg
