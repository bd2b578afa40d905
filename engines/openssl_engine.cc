// SPDX-License-Identifier: GPL-3.0-or-later
//
// openssl: AES-XTS and AES-CBC by OpenSSL's EVP interface, on every machine and for every spec that
// is served. The reference that other engines are compared with, and what they fall back to.
//
// A session sets each key once; a sector then costs one EVP_CipherInit_ex with its IV alone and one
// EVP_CipherUpdate. Neither allocates.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "core/cipher_engine.h"
#include "engines/engine_checks.h"

namespace cryptimg {
namespace {

constexpr std::size_t kBlockBytes = 16;
constexpr const char* kEssivCipher = "AES-256-ECB";

struct CipherDeleter {
  void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
};
struct ContextDeleter {
  // Cleanses the key schedule.
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using CipherPtr = std::unique_ptr<EVP_CIPHER, CipherDeleter>;
using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, ContextDeleter>;

unsigned char* uchars(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* uchars(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

// REQUIRES: check_spec(spec) passed.
const char* data_cipher_name(const CipherSpec& spec) {
  if (spec.mode == CipherMode::aes_xts) {
    return spec.key_size_bytes == 32 ? "AES-128-XTS" : "AES-256-XTS";
  }
  switch (spec.key_size_bytes) {
    case 16:
      return "AES-128-CBC";
    case 24:
      return "AES-192-CBC";
    default:
      return "AES-256-CBC";
  }
}

// `what`, followed by the reason OpenSSL gives. Empties OpenSSL's error queue of this thread.
tl::unexpected<Error> openssl_failure(std::string what) {
  if (const char* reason = ERR_reason_error_string(ERR_peek_last_error())) {
    what += std::string(": ") + reason;
  }
  ERR_clear_error();
  return fail(Errc::unavailable, std::move(what));
}

Result<CipherPtr> fetch_cipher(const char* name) {
  CipherPtr cipher(EVP_CIPHER_fetch(nullptr, name, nullptr));
  if (!cipher) {
    return openssl_failure("OpenSSL offers no " + std::string(name) +
                           " here, check the providers in openssl.cnf");
  }
  return cipher;
}

// A context with the key set and the IV still open. REQUIRES: `key` has the cipher's key size.
Result<ContextPtr> keyed_context(const char* cipher_name, Bytes key, Direction direction) {
  CRYPTIMG_ASSIGN_OR_RETURN(const CipherPtr cipher, fetch_cipher(cipher_name));
  ContextPtr context(EVP_CIPHER_CTX_new());
  const int encrypt = direction == Direction::encrypt ? 1 : 0;
  if (!context ||
      EVP_CipherInit_ex(context.get(), cipher.get(), nullptr, uchars(key.data()), nullptr,
                        encrypt) != 1 ||
      EVP_CIPHER_CTX_set_padding(context.get(), 0) != 1) {
    return openssl_failure("OpenSSL refuses the key for " + std::string(cipher_name));
  }
  return context;
}

// AES-256-ECB under SHA-256(volume key): what turns a counter into an ESSIV.
Result<ContextPtr> essiv_context(const Secret& key) {
  CRYPTIMG_ASSIGN_OR_RETURN(Secret salt, Secret::allocate(SHA256_DIGEST_LENGTH));
  unsigned int salt_bytes = 0;
  if (EVP_Digest(key.bytes().data(), key.size(), uchars(salt.mutable_bytes().data()), &salt_bytes,
                 EVP_sha256(), nullptr) != 1) {
    return openssl_failure("OpenSSL offers no SHA-256 here, check the providers in openssl.cnf");
  }
  return keyed_context(kEssivCipher, salt.bytes(), Direction::encrypt);
}

class OpensslSession final : public CipherSession {
 public:
  // `essiv` is null unless the spec wants it.
  OpensslSession(const CipherSpec& spec, ContextPtr encrypt, ContextPtr decrypt, ContextPtr essiv)
      : spec_(spec),
        encrypt_(std::move(encrypt)),
        decrypt_(std::move(decrypt)),
        essiv_(std::move(essiv)) {}
  OpensslSession(const OpensslSession&) = delete;
  OpensslSession& operator=(const OpensslSession&) = delete;
  ~OpensslSession() override { wipe(iv_); }

  Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                   MutableBytes target) noexcept override {
    const std::uint64_t units = spec_.sector_size_bytes / kIvUnitBytes;
    if (!transform_is_valid(spec_, first_sector, source, target)) {
      wipe(target);
      return fail(Errc::invalid_argument);
    }
    EVP_CIPHER_CTX* context = (direction == Direction::encrypt ? encrypt_ : decrypt_).get();
    std::uint64_t counter = first_sector * units;
    for (std::size_t at = 0; at < source.size(); at += spec_.sector_size_bytes) {
      if (!transform_sector(context, counter, source.data() + at, target.data() + at)) {
        ERR_clear_error();
        wipe(target);
        return fail(Errc::unavailable);
      }
      counter += units;
    }
    return {};
  }

 private:
  // Leaves the IV of the sector with this counter in iv_.
  bool make_iv(std::uint64_t counter) {
    iv_.fill(std::byte{0});
    store_le64(iv_.data(), spec_.iv == IvMode::plain ? counter & UINT32_MAX : counter);
    if (!essiv_) {
      return true;
    }
    int written = 0;
    return EVP_CipherUpdate(essiv_.get(), uchars(iv_.data()), &written, uchars(iv_.data()),
                            kBlockBytes) == 1 &&
           written == kBlockBytes;
  }

  bool transform_sector(EVP_CIPHER_CTX* context, std::uint64_t counter, const std::byte* source,
                        std::byte* target) {
    const int sector_bytes = static_cast<int>(spec_.sector_size_bytes);
    int written = 0;
    return make_iv(counter) &&
           EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, uchars(iv_.data()), -1) == 1 &&
           EVP_CipherUpdate(context, uchars(target), &written, uchars(source), sector_bytes) == 1 &&
           written == sector_bytes;
  }

  const CipherSpec spec_;
  const ContextPtr encrypt_;
  const ContextPtr decrypt_;
  const ContextPtr essiv_;
  std::array<std::byte, kBlockBytes> iv_{};
};

class OpensslEngine final : public CipherEngine {
 public:
  [[nodiscard]] std::string_view name() const override { return "openssl"; }
  [[nodiscard]] std::string description() const override {
    return OpenSSL_version(OPENSSL_VERSION);
  }

  [[nodiscard]] Status supports(const CipherSpec& spec) const override {
    CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
    CRYPTIMG_RETURN_IF_ERROR(fetch_cipher(data_cipher_name(spec)));
    if (spec.iv == IvMode::essiv_sha256) {
      CRYPTIMG_RETURN_IF_ERROR(fetch_cipher(kEssivCipher));
    }
    return {};
  }

  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
    CRYPTIMG_RETURN_IF_ERROR(check_key(spec, key));
    const char* cipher = data_cipher_name(spec);
    CRYPTIMG_ASSIGN_OR_RETURN(auto encrypt, keyed_context(cipher, key.bytes(), Direction::encrypt));
    CRYPTIMG_ASSIGN_OR_RETURN(auto decrypt, keyed_context(cipher, key.bytes(), Direction::decrypt));
    ContextPtr essiv;
    if (spec.iv == IvMode::essiv_sha256) {
      CRYPTIMG_ASSIGN_OR_RETURN(essiv, essiv_context(key));
    }
    return std::make_unique<OpensslSession>(spec, std::move(encrypt), std::move(decrypt),
                                            std::move(essiv));
  }
};

}  // namespace

// Declared in registry.cc, the table of the engines.
std::shared_ptr<const CipherEngine> make_openssl_engine() {
  return std::make_shared<OpensslEngine>();
}

}  // namespace cryptimg
