// SPDX-License-Identifier: GPL-3.0-or-later
//
// The defaults of `create`, and which values are legal. Limits of the KDFs are libcryptsetup's.
#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <limits>
#include <string>

#include "core/bytes.h"
#include "core/container.h"
#include "core/luks_format.h"

namespace cryptimg {
namespace {

constexpr std::size_t kMaxLabelBytes = 47;
constexpr std::uint32_t kMinArgon2MemoryKib = 32;
constexpr std::uint32_t kMinArgon2Iterations = 4;
constexpr std::uint32_t kMinPbkdf2Iterations = 1000;

tl::unexpected<Error> invalid(std::string message) {
  return fail(Errc::invalid_argument, std::move(message));
}

Status check_one_of(const char* option, std::uint32_t value,
                    std::initializer_list<std::uint32_t> legal, const std::string& context) {
  std::string names;
  for (const std::uint32_t candidate : legal) {
    if (candidate == value) {
      return {};
    }
    names += (names.empty() ? "" : ", ") + std::to_string(candidate);
  }
  return invalid(std::string(option) + " " + std::to_string(value) + " does not go with " +
                 context + ": it can be " + names);
}

Status check_range(const char* option, std::uint32_t value, std::uint32_t least,
                   std::uint32_t most) {
  if (value >= least && value <= most) {
    return {};
  }
  return invalid(std::string(option) + " " + std::to_string(value) +
                 " is out of range: it can be " + std::to_string(least) + " to " +
                 std::to_string(most));
}

Result<CipherSpec> resolve_spec(const CreateOptions& options) {
  const std::string cipher = options.cipher.value_or("aes-xts-plain64");
  Result<CipherSpec> parsed = parse_cipher_name(cipher);
  if (!parsed) {
    return invalid("--cipher " + cipher +
                   " is not served: it can be aes-xts-plain64, aes-xts-plain, "
                   "aes-cbc-essiv:sha256, aes-cbc-plain64, aes-cbc-plain");
  }
  CipherSpec spec = *parsed;
  const bool is_xts = spec.mode == CipherMode::aes_xts;
  const std::uint32_t key_bits = options.key_size_bits.value_or(is_xts ? 512 : 256);
  CRYPTIMG_RETURN_IF_ERROR(is_xts ? check_one_of("--key-size", key_bits, {256, 512}, cipher)
                                  : check_one_of("--key-size", key_bits, {128, 192, 256}, cipher));
  spec.key_size_bytes = key_bits / 8;

  const bool is_luks1 = options.type == "luks1";
  spec.sector_size_bytes = options.sector_size_bytes.value_or(is_luks1 ? 512 : 4096);
  CRYPTIMG_RETURN_IF_ERROR(
      is_luks1 ? check_one_of("--sector-size", spec.sector_size_bytes, {512}, "luks1")
               : check_one_of("--sector-size", spec.sector_size_bytes, {512, 1024, 2048, 4096},
                              "luks2"));
  return spec;
}

Status check_pbkdf2(const CreateOptions& options) {
  if (options.pbkdf_memory_kib || options.pbkdf_parallel) {
    return invalid(std::string(options.pbkdf_memory_kib ? "--pbkdf-memory" : "--pbkdf-parallel") +
                   " goes with argon2 only, not with pbkdf2");
  }
  if (options.pbkdf_force_iterations) {
    return check_range("--pbkdf-force-iterations", *options.pbkdf_force_iterations,
                       kMinPbkdf2Iterations, std::numeric_limits<std::uint32_t>::max());
  }
  return {};
}

Status check_argon2(const CreateOptions& options) {
  if (options.pbkdf_memory_kib) {
    CRYPTIMG_RETURN_IF_ERROR(check_range("--pbkdf-memory", *options.pbkdf_memory_kib,
                                         kMinArgon2MemoryKib, kMaxPbkdfMemoryKib));
  }
  if (options.pbkdf_parallel) {
    CRYPTIMG_RETURN_IF_ERROR(
        check_range("--pbkdf-parallel", *options.pbkdf_parallel, 1, kMaxPbkdfParallel));
  }
  if (options.pbkdf_force_iterations) {
    return check_range("--pbkdf-force-iterations", *options.pbkdf_force_iterations,
                       kMinArgon2Iterations, std::numeric_limits<std::uint32_t>::max());
  }
  return {};
}

Result<std::string> resolve_pbkdf(const CreateOptions& options) {
  const bool is_luks1 = options.type == "luks1";
  const std::string pbkdf = options.pbkdf.value_or(is_luks1 ? "pbkdf2" : "argon2id");
  if (pbkdf != "pbkdf2" && pbkdf != "argon2i" && pbkdf != "argon2id") {
    return invalid("--pbkdf " + pbkdf + " is unknown: it can be argon2id, argon2i, pbkdf2");
  }
  if (is_luks1 && pbkdf != "pbkdf2") {
    return invalid("--pbkdf " + pbkdf + " does not go with luks1: it can be pbkdf2");
  }
  if (options.iter_time_ms) {
    if (options.pbkdf_force_iterations) {
      return invalid("--iter-time and --pbkdf-force-iterations exclude each other");
    }
    if (*options.iter_time_ms == 0) {
      return invalid("--iter-time 0 is out of range: it can be 1 or more milliseconds");
    }
  }
  CRYPTIMG_RETURN_IF_ERROR(pbkdf == "pbkdf2" ? check_pbkdf2(options) : check_argon2(options));
  return pbkdf;
}

bool is_uuid(const std::string& text) {
  constexpr std::size_t kUuidChars = 36;
  constexpr std::array<std::size_t, 4> kDashes = {8, 13, 18, 23};
  if (text.size() != kUuidChars) {
    return false;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = std::find(kDashes.begin(), kDashes.end(), i) != kDashes.end();
    if (dash ? text[i] != '-' : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) {
      return false;
    }
  }
  return true;
}

Status check_names(const CreateOptions& options) {
  if (options.label) {
    if (options.type == "luks1") {
      return invalid("--label does not go with luks1, which stores none");
    }
    const bool has_control = std::any_of(options.label->begin(), options.label->end(), [](char c) {
      return std::iscntrl(static_cast<unsigned char>(c)) != 0;
    });
    if (options.label->size() > kMaxLabelBytes || has_control) {
      return invalid("--label can be at most " + std::to_string(kMaxLabelBytes) +
                     " bytes without control characters");
    }
  }
  if (options.uuid && !is_uuid(*options.uuid)) {
    return invalid("--uuid is not of the form 01234567-89ab-cdef-0123-456789abcdef");
  }
  return {};
}

}  // namespace

Result<CreatePlan> check_create_options(const CreateOptions& options, bool is_device) {
  if (options.type != "luks2" && options.type != "luks1") {
    return invalid("--type " + options.type + " is unknown: it can be luks2, luks1");
  }
  CreatePlan plan;
  CRYPTIMG_ASSIGN_OR_RETURN(plan.spec, resolve_spec(options));
  CRYPTIMG_ASSIGN_OR_RETURN(plan.pbkdf, resolve_pbkdf(options));
  CRYPTIMG_RETURN_IF_ERROR(check_names(options));
  if (is_device) {
    if (options.size_bytes != 0) {
      return invalid("a block device is used whole: leave --size out");
    }
    if (options.preallocate) {
      return invalid("--preallocate does not go with a block device");
    }
    return plan;
  }
  if (options.size_bytes == 0) {
    return invalid("--size is missing or 0: give the size of the decrypted image");
  }
  const auto image = round_up(options.size_bytes, plan.spec.sector_size_bytes);
  const auto file = image ? checked_add(*image, header_size_bytes(options)) : std::nullopt;
  if (!file || *file > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return invalid("--size " + std::to_string(options.size_bytes) +
                   " is more than a file can hold");
  }
  plan.image_size_bytes = *image;
  plan.size_was_rounded = *image != options.size_bytes;
  return plan;
}

}  // namespace cryptimg
