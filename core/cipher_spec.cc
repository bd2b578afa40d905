// SPDX-License-Identifier: GPL-3.0-or-later
//
// Names and limits of the ciphers that are served.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/cipher_engine.h"
#include "core/text.h"

namespace cryptimg {
namespace {

constexpr std::size_t kMaxShownNameBytes = 64;  // of a name that is not known

struct CipherNameEntry {
  std::string_view name;
  CipherMode mode;
  IvMode iv;
};

constexpr std::array kCipherNames = {
    CipherNameEntry{"aes-xts-plain64", CipherMode::aes_xts, IvMode::plain64},
    CipherNameEntry{"aes-xts-plain", CipherMode::aes_xts, IvMode::plain},
    CipherNameEntry{"aes-cbc-essiv:sha256", CipherMode::aes_cbc, IvMode::essiv_sha256},
    CipherNameEntry{"aes-cbc-plain64", CipherMode::aes_cbc, IvMode::plain64},
    CipherNameEntry{"aes-cbc-plain", CipherMode::aes_cbc, IvMode::plain},
};

std::string_view mode_name(CipherMode mode) {
  return mode == CipherMode::aes_xts ? "aes-xts" : "aes-cbc";
}

std::string_view iv_name(IvMode iv) {
  switch (iv) {
    case IvMode::plain:
      return "plain";
    case IvMode::plain64:
      return "plain64";
    case IvMode::essiv_sha256:
      break;
  }
  return "essiv:sha256";
}

bool key_size_fits(const CipherSpec& spec) {
  const std::uint32_t size = spec.key_size_bytes;
  if (spec.mode == CipherMode::aes_xts) {
    return size == 32 || size == 64;
  }
  return size == 16 || size == 24 || size == 32;
}

bool sector_size_fits(std::uint32_t size_bytes) {
  return size_bytes == 512 || size_bytes == 1024 || size_bytes == 2048 || size_bytes == 4096;
}

}  // namespace

std::string cipher_name(const CipherSpec& spec) {
  std::string name(mode_name(spec.mode));
  name += '-';
  name += iv_name(spec.iv);
  return name;
}

Result<CipherSpec> parse_cipher_name(std::string_view name) {
  for (const CipherNameEntry& entry : kCipherNames) {
    if (entry.name == name) {
      CipherSpec spec;
      spec.mode = entry.mode;
      spec.iv = entry.iv;
      return spec;
    }
  }
  std::string served;
  for (const CipherNameEntry& entry : kCipherNames) {
    served += served.empty() ? "" : ", ";
    served += entry.name;
  }
  return fail(Errc::unsupported, "the cipher '" + printable(name, kMaxShownNameBytes) +
                                     "' is not served, only " + served + " are");
}

Status check_spec(const CipherSpec& spec) {
  const std::string name = cipher_name(spec);
  CRYPTIMG_RETURN_IF_ERROR(parse_cipher_name(name));
  if (!key_size_fits(spec)) {
    return fail(Errc::unsupported,
                name + " with a key of " + std::to_string(std::uint64_t{spec.key_size_bytes} * 8) +
                    " bits is not served, only " +
                    (spec.mode == CipherMode::aes_xts ? "256 and 512" : "128, 192 and 256") +
                    " bits are");
  }
  if (!sector_size_fits(spec.sector_size_bytes)) {
    return fail(Errc::unsupported, "a sector size of " + std::to_string(spec.sector_size_bytes) +
                                       " bytes is not served, only 512, 1024, 2048 and 4096 are");
  }
  return {};
}

}  // namespace cryptimg
