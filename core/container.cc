// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/container.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <libcryptsetup.h>

#include "core/container_file.h"
#include "core/crypt_device.h"
#include "core/header_copies.h"
#include "core/kdf_limits.h"
#include "core/luks_header.h"

namespace cryptimg {
namespace {

// A container's files, opened and read.
struct Opened {
  ContainerFile data;
  ContainerFile header_file;  // fd invalid where the header is in the data file
  CryptDevice device;
  LuksHeader header;
  Placement placement;
};

Result<Opened> open_files(const OpenOptions& options, FileAccess access, bool lock) {
  CRYPTIMG_ASSIGN_OR_RETURN(ContainerFile data, open_container_file(options.container, access));
  if (lock) {
    CRYPTIMG_RETURN_IF_ERROR(lock_container_file(data, options.container, access));
  }
  ContainerFile header_file;
  if (options.header) {
    CRYPTIMG_ASSIGN_OR_RETURN(header_file, open_container_file(*options.header, FileAccess::read));
  }
  const bool detached = header_file.fd.valid();
  const int data_fd = data.fd.get();
  const int header_fd = detached ? header_file.fd.get() : data_fd;
  CRYPTIMG_ASSIGN_OR_RETURN(
      CryptDevice device,
      CryptDevice::over(header_fd, detached ? std::optional(data_fd) : std::nullopt));
  CRYPTIMG_ASSIGN_OR_RETURN(
      LuksHeader header,
      read_luks_header(device, header_fd, options.header.value_or(options.container),
                       detached ? header_file.size_bytes : data.size_bytes));
  const bool same_file = !detached || header_file.same_file_as(data);
  header.info.detached_header = !same_file;
  header.info.warning =
      header_copies_warning(detached ? header_file : data, header.info.metadata_size_bytes);
  const Placement placement = judge_placement(
      header, DataFacts{data.size_bytes, same_file, same_file ? 0 : own_header_end(data)});
  header.info.image_size_bytes = placement.image_size_bytes;
  return Opened{std::move(data), std::move(header_file), std::move(device), std::move(header),
                placement};
}

// Which failure a refusal is: `unsupported` for what the header asks for, `corrupt` where it
// contradicts itself or the device.
Errc refusal_code(const Opened& opened) {
  return opened.header.structure_refusal.empty() ? Errc::corrupt : Errc::unsupported;
}

Status check_served(const Opened& opened, const OpenOptions& options) {
  const std::string& refusal =
      options.read_only ? opened.placement.refusal : opened.placement.write_refusal;
  if (!refusal.empty()) {
    return fail(refusal_code(opened), options.container + " cannot be served: " + refusal);
  }
  return {};
}

// The keyslots to try, in order: the preferred first, those to ignore only when asked for.
Result<std::vector<KeyslotInfo>> candidates(const ContainerInfo& info, std::optional<int> keyslot) {
  std::vector<KeyslotInfo> chosen;
  if (keyslot) {
    for (const KeyslotInfo& slot : info.keyslots) {
      if (slot.number == *keyslot && slot.assigned_to_segment) {
        chosen.push_back(slot);
      }
    }
    if (chosen.empty()) {
      return fail(Errc::not_found,
                  "keyslot " + std::to_string(*keyslot) + " holds no key of this container");
    }
    return chosen;
  }
  for (const char* priority : {"prefer", "normal"}) {
    for (const KeyslotInfo& slot : info.keyslots) {
      if (slot.priority == priority && slot.assigned_to_segment) {
        chosen.push_back(slot);
      }
    }
  }
  if (chosen.empty()) {
    return fail(Errc::not_found,
                "every keyslot is to be used only when named: choose one with --key-slot");
  }
  return chosen;
}

Error keyslot_failure(const CryptDevice& device, int keyslot, int code) {
  const Errc kind = code >= 0 || code == -EINVAL ? Errc::corrupt : errc_from_errno(-code);
  return {kind, std::max(0, -code),
          "keyslot " + std::to_string(keyslot) + " cannot be opened" + device.reason(code)};
}

// Whether the header's digest tells this key from another. libcryptsetup takes every key for right
// where it cannot compute the digest: its hash is unknown, or the digest too short.
Result<bool> digest_is_sound(const CryptDevice& device, const Secret& key) {
  CRYPTIMG_ASSIGN_OR_RETURN(Secret other, Secret::copy_of(key.bytes()));
  other.mutable_bytes()[0] ^= std::byte{1};
  return crypt_volume_key_verify(device.get(), other.chars(), other.size()) == -EPERM;
}

}  // namespace

struct Container::Impl {
  Opened opened;
};

Container::Container(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Container::Container(Container&&) noexcept = default;
Container& Container::operator=(Container&&) noexcept = default;
Container::~Container() = default;

Result<Container> Container::open(const OpenOptions& options) {
  const FileAccess access = options.read_only ? FileAccess::read : FileAccess::exclusive;
  CRYPTIMG_ASSIGN_OR_RETURN(Opened opened, open_files(options, access, true));
  CRYPTIMG_RETURN_IF_ERROR(check_served(opened, options));
  return Container(std::make_unique<Impl>(Impl{std::move(opened)}));
}

Result<Container> Container::open_header(const OpenOptions& options) {
  OpenOptions shared = options;
  shared.read_only = true;
  CRYPTIMG_ASSIGN_OR_RETURN(Opened opened, open_files(shared, FileAccess::read, false));
  CRYPTIMG_RETURN_IF_ERROR(check_served(opened, shared));
  return Container(std::make_unique<Impl>(Impl{std::move(opened)}));
}

Result<ContainerInfo> Container::inspect(const OpenOptions& options) {
  CRYPTIMG_ASSIGN_OR_RETURN(Opened opened, open_files(options, FileAccess::read, false));
  ContainerInfo info = std::move(opened.header.info);
  const std::string& refusal = opened.placement.write_refusal;
  if (!refusal.empty()) {
    info.refusal = options.container + " cannot be served: " + refusal;
  }
  return info;
}

const ContainerInfo& Container::info() const {
  return impl_->opened.header.info;
}
const CipherSpec& Container::spec() const {
  return impl_->opened.header.spec;
}

Result<Secret> Container::unlock(const Secret& passphrase, std::optional<int> keyslot,
                                 KdfBounds bounds) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::vector<KeyslotInfo> slots, candidates(info(), keyslot));
  const bool bounded = bounds == KdfBounds::enforce;
  const std::uint64_t limit_kib = memory_limit_kib();
  std::uint32_t missing_kib = 0;
  std::string too_costly;         // the first keyslot that was not tried for the work it asks for
  std::optional<Error> obstacle;  // the first other failure: a later keyslot may still open
  for (const KeyslotInfo& slot : slots) {
    if (bounded && slot.memory_kib > limit_kib) {
      missing_kib = std::max(missing_kib, slot.memory_kib);
      continue;
    }
    if (const std::string refusal = bounded ? kdf_work_refusal(slot) : ""; !refusal.empty()) {
      too_costly = too_costly.empty() ? refusal : too_costly;
      continue;
    }
    // What libcryptsetup cannot decipher by itself it hands to the kernel, by device-mapper.
    if (!parse_cipher_name(slot.area_cipher)) {
      obstacle = obstacle.value_or(Error{Errc::unsupported, 0,
                                         "keyslot " + std::to_string(slot.number) +
                                             " is enciphered with '" + slot.area_cipher +
                                             "', which is not served"});
      continue;
    }
    CRYPTIMG_ASSIGN_OR_RETURN(Secret key, Secret::allocate(spec().key_size_bytes));
    if (slot.key_size_bytes != key.size()) {
      continue;
    }
    std::size_t key_size = key.size();
    const int code =
        crypt_volume_key_get(impl_->opened.device.get(), slot.number,
                             reinterpret_cast<char*>(key.mutable_bytes().data()), &key_size,
                             passphrase.empty() ? "" : passphrase.chars(), passphrase.size());
    if (code >= 0 && key_size == key.size()) {
      CRYPTIMG_ASSIGN_OR_RETURN(const bool is_sound, digest_is_sound(impl_->opened.device, key));
      if (is_sound) {
        return key;
      }
      return fail(Errc::corrupt,
                  "its header was tampered with or is damaged: its digest accepts any key, so a "
                  "wrong passphrase could not be told");
    }
    if (code == -ENOMEM) {
      missing_kib = std::max(missing_kib, slot.memory_kib);
    } else if (code != -EPERM && code != -ENOENT && !obstacle) {
      obstacle = keyslot_failure(impl_->opened.device, slot.number, code);
    }
  }
  if (missing_kib > 0) {
    return fail(Errc::out_of_memory,
                "the key derivation needs " + std::to_string(missing_kib) +
                    " KiB of memory, more than there is (" + std::to_string(limit_kib) +
                    " KiB): use a machine with more, or another keyslot",
                ENOMEM);
  }
  if (!too_costly.empty()) {
    return fail(Errc::unsupported,
                too_costly +
                    ", far more than any sensible header: mount with --allow-costly-kdf "
                    "if you know why");
  }
  if (obstacle) {
    return tl::unexpected(std::move(*obstacle));
  }
  return fail(Errc::wrong_key,
              keyslot
                  ? "this passphrase or key file does not open keyslot " + std::to_string(*keyslot)
                  : std::string("no keyslot opens with this passphrase or key file"));
}

Result<std::unique_ptr<BlockDevice>> Container::take_device(BackingIo io) {
  assert(impl_->opened.data.fd.valid());
  UniqueFd file = std::move(impl_->opened.data.fd);
  std::vector<UniqueFd> backing = std::move(impl_->opened.data.backing);
  if (io == BackingIo::direct) {
    return make_direct_device(std::move(file), info().data_offset_bytes, info().image_size_bytes,
                              spec().sector_size_bytes, std::move(backing));
  }
  return make_file_device(std::move(file), info().data_offset_bytes, info().image_size_bytes, io,
                          std::move(backing));
}

}  // namespace cryptimg
