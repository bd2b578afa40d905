// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/luks_format.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fcntl.h>
#include <libcryptsetup.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/container_file.h"
#include "core/crypt_device.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kLuks2HeaderBytes = std::uint64_t{16} << 20;
constexpr std::uint64_t kLuks1HeaderBytes = std::uint64_t{2} << 20;
// What the stand-in for the data area needs to be: libcryptsetup only wants it not to be empty.
constexpr std::uint64_t kStandInBytes = std::uint64_t{1} << 20;

bool is_luks2(const CreateOptions& options) {
  return options.type == "luks2";
}

Result<UniqueFd> memory_file(std::uint64_t size_bytes) {
  UniqueFd memory(::memfd_create("cryptimg-header", MFD_CLOEXEC));
  if (!memory.valid() || ::ftruncate(memory.get(), static_cast<off_t>(size_bytes)) != 0) {
    return fail_errno(errno, "no memory for the header");
  }
  return memory;
}

crypt_pbkdf_type pbkdf_of(const CreateOptions& options, const CreatePlan& plan) {
  crypt_pbkdf_type pbkdf = {};
  pbkdf.type = plan.pbkdf.c_str();
  pbkdf.hash = "sha256";
  pbkdf.time_ms = 2000;  // cryptsetup's --iter-time
  if (plan.pbkdf != CRYPT_KDF_PBKDF2) {
    const crypt_pbkdf_type* defaults = crypt_get_pbkdf_default(CRYPT_LUKS2);
    pbkdf.max_memory_kb = options.pbkdf_memory_kib.value_or(defaults->max_memory_kb);
    pbkdf.parallel_threads = options.pbkdf_parallel.value_or(defaults->parallel_threads);
  }
  if (options.iter_time_ms) {
    pbkdf.time_ms = *options.iter_time_ms;
  }
  if (options.pbkdf_force_iterations) {
    pbkdf.iterations = *options.pbkdf_force_iterations;
    pbkdf.flags = CRYPT_PBKDF_NO_BENCHMARK;
    pbkdf.time_ms = 0;
  }
  return pbkdf;
}

Error format_failure(const CryptDevice& device, int code, const std::string& what,
                     std::uint32_t memory_kib) {
  if (code == -ENOMEM && memory_kib > 0) {
    return {Errc::out_of_memory, ENOMEM,
            "the key derivation needs up to " + std::to_string(memory_kib) +
                " KiB of memory, more than there is: choose less with --pbkdf-memory"};
  }
  const Errc kind =
      code == -EINVAL || code == -ENOTSUP ? Errc::unsupported : errc_from_errno(-code);
  return {kind, -code, what + device.reason(code)};
}

// The cipher as libcryptsetup takes it: "aes" and "xts-plain64".
int format(crypt_device* device, const CreateOptions& options, const CreatePlan& plan,
           const crypt_pbkdf_type& pbkdf, const std::string& data_path) {
  const std::string cipher = cipher_name(plan.spec);
  const std::size_t dash = cipher.find('-');
  const std::string algorithm = cipher.substr(0, dash);
  const std::string mode = cipher.substr(dash + 1);
  const char* data_device = data_path.empty() ? nullptr : data_path.c_str();
  const char* uuid = options.uuid ? options.uuid->c_str() : nullptr;
  if (is_luks2(options)) {
    crypt_params_luks2 params = {};
    params.pbkdf = &pbkdf;
    params.data_device = data_device;
    params.sector_size = plan.spec.sector_size_bytes;
    params.label = options.label ? options.label->c_str() : nullptr;
    return crypt_format(device, CRYPT_LUKS2, algorithm.c_str(), mode.c_str(), uuid, nullptr,
                        plan.spec.key_size_bytes, &params);
  }
  crypt_params_luks1 params = {};
  params.hash = "sha256";
  params.data_device = data_device;
  return crypt_format(device, CRYPT_LUKS1, algorithm.c_str(), mode.c_str(), uuid, nullptr,
                      plan.spec.key_size_bytes, &params);
}

}  // namespace

std::uint64_t header_size_bytes(const CreateOptions& options) {
  return is_luks2(options) ? kLuks2HeaderBytes : kLuks1HeaderBytes;
}

Result<FormattedHeader> format_header(const CreateOptions& options, const CreatePlan& plan,
                                      const Secret& passphrase) {
  const bool detached = options.header.has_value();
  FormattedHeader result;
  result.size_bytes = header_size_bytes(options);
  CRYPTIMG_ASSIGN_OR_RETURN(result.memory,
                            memory_file(result.size_bytes + (detached ? 0 : kStandInBytes)));
  UniqueFd data;
  std::string data_path;
  if (detached) {
    CRYPTIMG_ASSIGN_OR_RETURN(data, memory_file(kStandInBytes));
    data_path = proc_path(data.get());
  }
  CRYPTIMG_ASSIGN_OR_RETURN(CryptDevice device,
                            CryptDevice::over(result.memory.get(), std::nullopt));
  const crypt_pbkdf_type pbkdf = pbkdf_of(options, plan);
  int code = crypt_set_pbkdf_type(device.get(), &pbkdf);
  if (code == 0 && !detached) {
    code = crypt_set_data_offset(device.get(), result.size_bytes / 512);
  }
  if (code == 0) {
    code = format(device.get(), options, plan, pbkdf, data_path);
  }
  if (code < 0) {
    return tl::unexpected(
        format_failure(device, code, "the header cannot be made", pbkdf.max_memory_kb));
  }
  code = crypt_keyslot_add_by_volume_key(
      device.get(), 0, nullptr, 0, passphrase.empty() ? "" : passphrase.chars(), passphrase.size());
  if (code < 0) {
    return tl::unexpected(
        format_failure(device, code, "the keyslot cannot be made", pbkdf.max_memory_kb));
  }
  return result;
}

}  // namespace cryptimg
