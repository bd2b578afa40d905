// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdint>
#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>

#include "core/container.h"
#include "core/text.h"
#include "fuse/commands.h"
#include "fuse/sizes.h"

namespace cryptimg {
namespace {

nlohmann::ordered_json to_json(const KeyslotInfo& slot) {
  return {{"number", slot.number},
          {"priority", valid_text(slot.priority)},
          {"key_size_bits", std::uint64_t{slot.key_size_bytes} * 8},
          {"area_cipher", valid_text(slot.area_cipher)},
          {"kdf", valid_text(slot.kdf)},
          {"kdf_hash", valid_text(slot.kdf_hash)},
          {"iterations", slot.iterations},
          {"memory_kib", slot.memory_kib},
          {"parallel", slot.parallel},
          {"assigned", slot.assigned_to_segment}};
}

nlohmann::ordered_json to_json(const ContainerInfo& info) {
  nlohmann::ordered_json requirements = nlohmann::ordered_json::array();
  for (const std::string& requirement : info.requirements) {
    requirements.push_back(valid_text(requirement));
  }
  nlohmann::ordered_json keyslots = nlohmann::ordered_json::array();
  for (const KeyslotInfo& slot : info.keyslots) {
    keyslots.push_back(to_json(slot));
  }
  return {{"type", info.type},
          {"uuid", valid_text(info.uuid)},
          {"label", valid_text(info.label)},
          {"subsystem", valid_text(info.subsystem)},
          {"cipher", valid_text(info.cipher)},
          {"key_size_bits", std::uint64_t{info.key_size_bytes} * 8},
          {"sector_size", info.sector_size_bytes},
          {"data_offset", info.data_offset_bytes},
          {"image_size", info.image_size_bytes},
          {"metadata_size", info.metadata_size_bytes},
          {"detached_header", info.detached_header},
          {"requirements", std::move(requirements)},
          {"mountable", info.refusal.empty()},
          {"refusal", valid_text(info.refusal)},
          {"warning", valid_text(info.warning)},
          {"keyslots", std::move(keyslots)}};
}

void line(const char* name, const std::string& value) {
  if (!value.empty()) {
    std::printf("%-14s %s\n", name, printable(value).c_str());
  }
}

std::string bytes_text(std::uint64_t bytes) {
  const std::string plain = std::to_string(bytes) + " bytes";
  const std::string human = human_size(bytes);
  return human == plain ? plain : plain + " (" + human + ")";
}

std::string slot_text(const KeyslotInfo& slot) {
  std::string text = slot.kdf;
  if (!slot.kdf_hash.empty()) {
    text += " " + slot.kdf_hash;
  }
  text += ", " + std::to_string(slot.iterations) + " iterations";
  if (slot.memory_kib != 0) {
    text += ", " + std::to_string(slot.memory_kib) + " KiB, " + std::to_string(slot.parallel) +
            (slot.parallel == 1 ? " thread" : " threads");
  }
  text += ", " + std::to_string(std::uint64_t{slot.key_size_bytes} * 8) + "-bit key";
  if (!slot.area_cipher.empty()) {
    text += " under " + slot.area_cipher;
  }
  if (slot.priority != "normal" && !slot.priority.empty()) {
    text += ", priority " + slot.priority;
  }
  return text + (slot.assigned_to_segment ? "" : ", unbound (not for the data)");
}

void print_text(const ContainerInfo& info) {
  line("Type:", info.type);
  line("UUID:", info.uuid);
  line("Label:", info.label);
  line("Subsystem:", info.subsystem);
  line("Cipher:", info.cipher);
  line("Key size:", std::to_string(std::uint64_t{info.key_size_bytes} * 8) + " bits");
  line("Sector size:", std::to_string(info.sector_size_bytes) + " bytes");
  line("Data offset:", bytes_text(info.data_offset_bytes));
  line("Image size:", info.image_size_bytes != 0 ? bytes_text(info.image_size_bytes) : "unknown");
  if (info.metadata_size_bytes != 0) {
    line("Metadata:", bytes_text(info.metadata_size_bytes) + ", twice");
  }
  line("Header:", info.detached_header ? "detached" : "in the container");
  for (const std::string& requirement : info.requirements) {
    line("Requires:", requirement);
  }
  for (const KeyslotInfo& slot : info.keyslots) {
    line(("Keyslot " + std::to_string(slot.number) + ":").c_str(), slot_text(slot));
  }
  if (info.keyslots.empty()) {
    line("Keyslots:", "none in use: there is no way to unlock this container");
  }
  if (!info.warning.empty()) {
    line("Warning:", info.warning);
  }
  if (!info.refusal.empty()) {
    line("Not mountable:", info.refusal);
  }
}

}  // namespace

ExitCode run_info(const std::string& container, const std::optional<std::string>& header,
                  bool json) {
  OpenOptions options;
  options.container = container;
  options.header = header;
  options.read_only = true;
  const auto info = Container::inspect(options);
  if (!info) {
    return report(info.error(), json);
  }
  if (json) {
    std::printf("%s\n", to_json(*info).dump(2, ' ', true).c_str());
  } else {
    print_text(*info);
  }
  return ExitCode::ok;
}

}  // namespace cryptimg
