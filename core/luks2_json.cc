// SPDX-License-Identifier: GPL-3.0-or-later
//
// The JSON of a LUKS2 header. libcryptsetup has validated it before, but only for its own purposes;
// every field is looked up and range-checked here again, and nothing throws.
#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "core/container_file.h"
#include "core/luks_header.h"
#include "core/text.h"

namespace cryptimg {
namespace {

using Json = nlohmann::json;

constexpr int kMaxKeyslots = 32;

tl::unexpected<Error> malformed(const std::string& what) {
  return fail(Errc::corrupt, "the LUKS2 header contradicts its format: " + what);
}

// The member of an object, or null where there is none.
const Json& member(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) {
    return kNothing;
  }
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

std::string text_of(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>()) : std::string();
}

// LUKS2 writes 64-bit numbers as decimal strings.
std::optional<std::uint64_t> decimal(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> decimal(const Json& value) {
  return value.is_string() ? decimal(value.get<std::string>()) : std::nullopt;
}

// Small numbers are JSON numbers. Nothing where it is none, negative or too large.
std::optional<std::uint32_t> number(const Json& value) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(value.get<std::uint64_t>());
}

// A number that costs: one that is there but does not fit is as much as there can be.
std::uint32_t cost(const Json& value) {
  return value.is_null() ? 0 : number(value).value_or(std::numeric_limits<std::uint32_t>::max());
}

bool lists(const Json& array, const std::string& word) {
  if (!array.is_array()) {
    return false;
  }
  for (const Json& entry : array) {
    if (entry.is_string() && entry.get<std::string>() == word) {
      return true;
    }
  }
  return false;
}

// A keyslot opens the segment where the one digest that checks its key is the segment's.
bool is_assigned(const Json& digests, const std::string& keyslot, const std::string& segment) {
  int digest_count = 0;
  bool assigned = false;
  for (const Json& digest : digests) {
    if (lists(member(digest, "keyslots"), keyslot)) {
      ++digest_count;
      assigned = lists(member(digest, "segments"), segment);
    }
  }
  return digest_count == 1 && assigned;
}

// What the digests of a keyslot cost, the dearest of them.
std::uint32_t digest_iterations(const Json& digests, const std::string& keyslot) {
  std::uint32_t iterations = 0;
  for (const Json& digest : digests) {
    if (lists(member(digest, "keyslots"), keyslot)) {
      iterations = std::max(iterations, cost(member(digest, "iterations")));
    }
  }
  return iterations;
}

Status read_requirements(const Json& config, ContainerInfo& info) {
  const Json& requirements = member(config, "requirements");
  if (requirements.is_null()) {
    return {};
  }
  if (!requirements.is_object()) {
    return malformed("config.requirements is no object");
  }
  for (const auto& [kind, names] : requirements.items()) {
    if (!names.is_array()) {
      return malformed("config.requirements." + printable(kind) + " is no array");
    }
    for (const Json& name : names) {
      info.requirements.push_back(name.is_string() ? text_of(name) : printable(name.dump()));
    }
  }
  return {};
}

Status read_keyslots(const Json& root, const std::string& segment, ContainerInfo& info) {
  const Json& keyslots = member(root, "keyslots");
  if (!keyslots.is_object()) {
    return malformed("no keyslots object");
  }
  // JSON objects sort "10" before "2"; people count.
  std::map<std::uint64_t, KeyslotInfo> sorted;
  for (const auto& [name, keyslot] : keyslots.items()) {
    const auto slot_number = decimal(name);
    if (!slot_number || *slot_number >= kMaxKeyslots) {
      return malformed("a keyslot is called " + printable(name));
    }
    const Json& kdf = member(keyslot, "kdf");
    const Json& area = member(keyslot, "area");
    KeyslotInfo slot;
    slot.number = static_cast<int>(*slot_number);
    const auto priority = number(member(keyslot, "priority")).value_or(1);
    slot.priority = priority == 0 ? "ignore" : priority == 2 ? "prefer" : "normal";
    slot.key_size_bytes = number(member(keyslot, "key_size")).value_or(0);
    slot.area_cipher = text_of(member(area, "encryption"));
    slot.area_key_size_bytes = number(member(area, "key_size")).value_or(0);
    slot.kdf = text_of(member(kdf, "type"));
    slot.kdf_hash = text_of(member(kdf, "hash"));
    const bool is_pbkdf2 = slot.kdf == "pbkdf2";
    slot.iterations = cost(member(kdf, is_pbkdf2 ? "iterations" : "time"));
    slot.memory_kib = is_pbkdf2 ? 0 : cost(member(kdf, "memory"));
    slot.parallel = is_pbkdf2 ? 0 : cost(member(kdf, "cpus"));
    slot.digest_iterations = digest_iterations(member(root, "digests"), name);
    slot.assigned_to_segment =
        member(keyslot, "type") == "luks2" && is_assigned(member(root, "digests"), name, segment);
    sorted[*slot_number] = std::move(slot);
  }
  for (auto& [slot_number, slot] : sorted) {
    info.keyslots.push_back(std::move(slot));
  }
  return {};
}

// What the one segment has that is not served, or an empty string.
std::string segment_refusal(const Json& segment) {
  const std::string type = text_of(member(segment, "type"));
  if (type != "crypt") {
    return "its data segment is of type \"" + type + "\", only crypt is served";
  }
  const Json& integrity = member(segment, "integrity");
  if (!integrity.is_null()) {
    return "its data is under integrity protection (" + text_of(member(integrity, "type")) +
           "), which is not served";
  }
  const Json& tweak = member(segment, "iv_tweak");
  if (decimal(tweak) != 0) {
    return "its sector numbers start at iv_tweak " +
           printable(tweak.is_string() ? tweak.get<std::string>() : tweak.dump()) +
           ", only 0 is served";
  }
  const Json& flags = member(segment, "flags");
  if (!flags.is_null() && !(flags.is_array() && flags.empty())) {
    return "its data segment carries the flags " + printable(flags.dump()) +
           ", which are not served";
  }
  return {};
}

Status read_segment(const Json& segment, LuksHeader& header) {
  const auto offset = decimal(member(segment, "offset"));
  if (!offset) {
    return malformed("the segment's offset is no number");
  }
  header.info.data_offset_bytes = *offset;
  const Json& size = member(segment, "size");
  header.fixed_size_bytes = decimal(size);
  if (!header.fixed_size_bytes && size != "dynamic") {
    return malformed("the segment's size is neither a number nor dynamic");
  }
  header.info.cipher = text_of(member(segment, "encryption"));
  header.info.sector_size_bytes = number(member(segment, "sector_size")).value_or(0);
  return {};
}

std::string requirements_refusal(const ContainerInfo& info) {
  std::string names;
  for (const std::string& name : info.requirements) {
    if (name.find("reencrypt") != std::string::npos) {
      return "its re-encryption is under way (" + name +
             "): finish that with cryptsetup reencrypt first";
    }
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? names : "it requires " + names + ", which is not served";
}

Status parse(std::string_view text, LuksHeader& header) {
  const Json root = Json::parse(text.begin(), text.end());
  const Json& segments = member(root, "segments");
  if (!segments.is_object()) {
    return malformed("no segments object");
  }
  const std::string first_segment = segments.empty() ? "" : segments.begin().key();
  CRYPTIMG_RETURN_IF_ERROR(read_requirements(member(root, "config"), header.info));
  CRYPTIMG_RETURN_IF_ERROR(read_keyslots(root, first_segment, header.info));

  const auto keyslots_size = decimal(member(member(root, "config"), "keyslots_size"));
  const auto copies = checked_mul<std::uint64_t>(header.info.metadata_size_bytes, 2);
  const auto header_end =
      keyslots_size && copies ? checked_add(*copies, *keyslots_size) : std::nullopt;
  if (!header_end) {
    return malformed("config.keyslots_size is no fitting number");
  }
  header.header_end_bytes = *header_end;

  header.structure_refusal = requirements_refusal(header.info);
  if (segments.size() != 1) {
    if (header.structure_refusal.empty()) {
      header.structure_refusal = "it has " + std::to_string(segments.size()) +
                                 " data segments, only containers with one are served";
    }
    return {};
  }
  if (header.structure_refusal.empty()) {
    header.structure_refusal = segment_refusal(*segments.begin());
  }
  return read_segment(*segments.begin(), header);
}

}  // namespace

Status parse_luks2_json(std::string_view text, LuksHeader& header) {
  try {
    return parse(text, header);
  } catch (const std::exception&) {
    return malformed("its JSON cannot be read");
  }
}

}  // namespace cryptimg
