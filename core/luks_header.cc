// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/luks_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include <libcryptsetup.h>

#include "core/bytes.h"
#include "core/container_file.h"
#include "core/text.h"

namespace cryptimg {
namespace {

constexpr std::array<unsigned char, 6> kLuksMagic = {'L', 'U', 'K', 'S', 0xba, 0xbe};
constexpr std::uint64_t kLuks1PayloadField = 104;  // be32, in 512-byte units
constexpr std::uint64_t kLuks1DigestField = 164;   // be32, iterations of the key's digest
constexpr std::uint64_t kLuks1HeaderBytes = 1024;  // 592, rounded up to sectors
constexpr std::uint64_t kLuks2SizeField = 8;       // be64, one copy of the header

constexpr std::uint32_t kMaxAreaKeyBytes = 64;  // two AES-256 keys, for XTS

std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : printable(text);
}

std::uint64_t big_endian(const unsigned char* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value = value << 8 | bytes[i];
  }
  return value;
}

std::string sizes(std::uint64_t needed_bytes, std::uint64_t actual_bytes) {
  return "its header says at least " + std::to_string(needed_bytes) +
         " bytes, but there are only " + std::to_string(actual_bytes);
}

// libcryptsetup could not load the header: what can be said about why.
Error load_failure(const CryptDevice& device, int code, int header_fd, const std::string& name,
                   std::uint64_t file_size_bytes) {
  if (code == -ENOMEM) {
    return {Errc::out_of_memory, ENOMEM, "not enough memory to read the header of " + name};
  }
  std::array<unsigned char, 112> start = {};
  const std::size_t available = std::min<std::uint64_t>(start.size(), file_size_bytes);
  if (!read_exactly(header_fd, start.data(), available, 0) ||
      !std::equal(kLuksMagic.begin(), kLuksMagic.end(), start.begin())) {
    return {Errc::corrupt, 0,
            name + " is no LUKS container (there is no LUKS header at its start)"};
  }
  const bool is_luks1 = big_endian(start.data() + kLuksMagic.size(), 2) == 1;
  const std::uint64_t needed = is_luks1 ? big_endian(start.data() + kLuks1PayloadField, 4) * 512
                                        : big_endian(start.data() + kLuks2SizeField, 8);
  if (needed > file_size_bytes) {
    return {Errc::corrupt, 0, name + " is too short: " + sizes(needed, file_size_bytes)};
  }
  return {Errc::corrupt, 0, name + " has a damaged LUKS header" + device.reason(code)};
}

void read_luks1(crypt_device* device, int header_fd, LuksHeader& header) {
  ContainerInfo& info = header.info;
  info.cipher =
      text_or_empty(crypt_get_cipher(device)) + "-" + text_or_empty(crypt_get_cipher_mode(device));
  info.sector_size_bytes = 512;
  // A 32-bit number of sectors on disk: the product fits.
  info.data_offset_bytes = crypt_get_data_offset(device) * 512;
  header.header_end_bytes = kLuks1HeaderBytes;
  // libcryptsetup does not tell these.
  std::array<unsigned char, 4> digest = {0xff, 0xff, 0xff, 0xff};
  [[maybe_unused]] const Status got =
      read_exactly(header_fd, digest.data(), digest.size(), kLuks1DigestField);
  const int slot_count = crypt_keyslot_max(CRYPT_LUKS1);
  for (int number = 0; number < slot_count; ++number) {
    const crypt_keyslot_info status = crypt_keyslot_status(device, number);
    if (status != CRYPT_SLOT_ACTIVE && status != CRYPT_SLOT_ACTIVE_LAST) {
      continue;
    }
    KeyslotInfo slot;
    slot.number = number;
    slot.priority = "normal";
    slot.key_size_bytes =
        static_cast<std::uint32_t>(std::max(0, crypt_keyslot_get_key_size(device, number)));
    slot.area_cipher = info.cipher;
    slot.area_key_size_bytes = slot.key_size_bytes;
    crypt_pbkdf_type kdf = {};
    if (crypt_keyslot_get_pbkdf(device, number, &kdf) == 0) {
      slot.kdf = text_or_empty(kdf.type);
      slot.kdf_hash = text_or_empty(kdf.hash);
      slot.iterations = kdf.iterations;
    }
    slot.digest_iterations = static_cast<std::uint32_t>(big_endian(digest.data(), digest.size()));
    std::uint64_t area_offset = 0;
    std::uint64_t area_size = 0;
    if (crypt_keyslot_area(device, number, &area_offset, &area_size) == 0) {
      const auto area_end = checked_add(area_offset, area_size);
      header.header_end_bytes = std::max(
          header.header_end_bytes, area_end.value_or(std::numeric_limits<std::uint64_t>::max()));
    }
    info.keyslots.push_back(std::move(slot));
  }
}

Status read_luks2(const CryptDevice& device, const std::string& name, LuksHeader& header) {
  crypt_device* context = device.get();
  header.info.label = text_or_empty(crypt_get_label(context));
  header.info.subsystem = text_or_empty(crypt_get_subsystem(context));
  std::uint64_t keyslots_bytes = 0;
  if (crypt_get_metadata_size(context, &header.info.metadata_size_bytes, &keyslots_bytes) != 0) {
    return fail(Errc::corrupt, name + " does not tell the size of its header");
  }
  const char* json = nullptr;
  const int code = crypt_dump_json(context, &json, 0);
  if (code != 0 || json == nullptr) {
    return fail(Errc::corrupt, "the header of " + name + " cannot be read" + device.reason(code));
  }
  Status parsed = parse_luks2_json(json, header);
  if (!parsed) {
    parsed.error().message = name + ": " + parsed.error().message;
  }
  return parsed;
}

// The volume key's size. libcryptsetup tells none where requirements are unmet.
std::uint32_t volume_key_size(crypt_device* device, const ContainerInfo& info) {
  const int size = crypt_get_volume_key_size(device);
  if (size > 0) {
    return static_cast<std::uint32_t>(size);
  }
  for (const KeyslotInfo& slot : info.keyslots) {
    if (slot.assigned_to_segment) {
      return slot.key_size_bytes;
    }
  }
  return 0;
}

// What of a keyslot is not served, or an empty string. libcryptsetup would allocate and derive a
// key of whatever size the header says.
std::string keyslot_refusal(const KeyslotInfo& slot) {
  const std::string name = "keyslot " + std::to_string(slot.number);
  if (slot.area_cipher.find("null") != std::string::npos) {
    return name + " is not enciphered (" + slot.area_cipher + "), which is not served";
  }
  const std::uint32_t key_size = slot.area_key_size_bytes;
  if (slot.assigned_to_segment && (key_size == 0 || key_size > kMaxAreaKeyBytes)) {
    return name + " is enciphered with a key of " +
           (key_size == 0 ? std::string("no size") : std::to_string(key_size) + " bytes") +
           ", no cipher takes that: 1 to " + std::to_string(kMaxAreaKeyBytes) + " bytes are served";
  }
  return {};
}

// What of cipher and keyslots is not served, or an empty string; fills the spec.
std::string cipher_refusal(LuksHeader& header) {
  const ContainerInfo& info = header.info;
  Result<CipherSpec> spec = parse_cipher_name(info.cipher);
  if (!spec) {
    return spec.error().message;
  }
  spec->key_size_bytes = info.key_size_bytes;
  spec->sector_size_bytes = info.sector_size_bytes;
  header.spec = *spec;
  bool has_keyslot = false;
  for (const KeyslotInfo& slot : info.keyslots) {
    if (std::string refusal = keyslot_refusal(slot); !refusal.empty()) {
      return refusal;
    }
    has_keyslot = has_keyslot || slot.assigned_to_segment;
  }
  if (!has_keyslot) {
    return "it has no keyslot that opens its data";
  }
  const Status fits = check_spec(*spec);
  return fits ? std::string() : fits.error().message;
}

// Where the segment lies on the device, its structure being served.
Placement place_segment(const LuksHeader& header, const DataFacts& data) {
  const auto refuse = [](const std::string& sentence) { return Placement{0, sentence, sentence}; };
  const std::uint64_t offset = header.info.data_offset_bytes;
  const std::uint64_t sector = header.info.sector_size_bytes;
  if (sector == 0) {
    return refuse("its sector size is 0");
  }
  if (offset % kIvUnitBytes != 0) {
    return refuse("its data offset of " + std::to_string(offset) + " bytes is no multiple of 512");
  }
  if (data.header_in_same_file && offset < header.header_end_bytes) {
    return refuse("its data would start at byte " + std::to_string(offset) +
                  ", inside the header, which ends at " + std::to_string(header.header_end_bytes));
  }
  if (offset < data.foreign_header_end_bytes) {
    return refuse(
        "it has a LUKS header of its own where the data of the detached header would start; leave "
        "--header out, or wipe that header if it is not needed any more");
  }
  const std::uint64_t wanted = header.fixed_size_bytes.value_or(sector);
  if (wanted == 0 || wanted % sector != 0) {
    return refuse("its data segment of " + std::to_string(wanted) + " bytes is not made of " +
                  std::to_string(sector) + "-byte sectors");
  }
  const auto end = checked_add(offset, wanted);
  if (!end || *end > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return refuse("its data segment would end beyond what a file can hold");
  }
  if (!header.fixed_size_bytes) {
    return *end > data.device_size_bytes
               ? refuse(sizes(*end, data.device_size_bytes))
               : Placement{round_down(data.device_size_bytes - offset, sector), {}, {}};
  }
  Placement placement{wanted, {}, {}};
  if (*end > data.device_size_bytes) {
    placement.write_refusal = sizes(*end, data.device_size_bytes);
  }
  return placement;
}

}  // namespace

Result<LuksHeader> read_luks_header(CryptDevice& device, int header_fd, const std::string& name,
                                    std::uint64_t file_size_bytes) {
  const int code = crypt_load(device.get(), CRYPT_LUKS, nullptr);
  if (code < 0) {
    return tl::unexpected(load_failure(device, code, header_fd, name, file_size_bytes));
  }
  LuksHeader header;
  header.info.type = text_or_empty(crypt_get_type(device.get()));
  header.info.uuid = text_or_empty(crypt_get_uuid(device.get()));
  if (header.info.type == CRYPT_LUKS1) {
    read_luks1(device.get(), header_fd, header);
  } else {
    CRYPTIMG_RETURN_IF_ERROR(read_luks2(device, name, header));
  }
  header.info.key_size_bytes = volume_key_size(device.get(), header.info);
  if (header.structure_refusal.empty()) {
    header.structure_refusal = cipher_refusal(header);
  }
  return header;
}

Placement judge_placement(const LuksHeader& header, const DataFacts& data) {
  Placement placement = place_segment(header, data);
  if (!header.structure_refusal.empty()) {
    placement.refusal = header.structure_refusal;
    placement.write_refusal = header.structure_refusal;
  }
  return placement;
}

}  // namespace cryptimg
