// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/luks2_edit.h"

#include <fstream>

#include <openssl/sha.h>

#include "tests/support/temp_dir.h"

namespace cryptimg::testing {
namespace {

// The binary header (LUKS2 specification, section 2.1).
constexpr std::size_t kSizeField = 8;
constexpr std::size_t kChecksumField = 448;
constexpr std::size_t kChecksumFieldBytes = 64;
constexpr std::size_t kBinaryHeaderBytes = 4096;

}  // namespace

bool edit_luks2_json(const std::string& path, const std::string& from, const std::string& to) {
  const std::string file = read_file(path);
  if (file.size() < kBinaryHeaderBytes || file.compare(0, 4, "LUKS") != 0) {
    return false;
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    size = size << 8 | static_cast<unsigned char>(file[kSizeField + i]);
  }
  if (size <= kBinaryHeaderBytes || size > file.size() / 2) {
    return false;
  }
  const std::string area = file.substr(kBinaryHeaderBytes, size - kBinaryHeaderBytes);
  std::string json = area.c_str();
  const std::size_t found = json.find(from);
  if (found == std::string::npos) {
    return false;
  }
  json.replace(found, from.size(), to);
  if (json.size() >= area.size()) {
    return false;
  }
  json.resize(area.size(), '\0');
  std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
  for (const std::size_t copy : {std::size_t{0}, size}) {
    std::string header = file.substr(copy, kBinaryHeaderBytes) + json;
    seal_luks2_header(header, 0, header.size());
    out.seekp(static_cast<std::streamoff>(copy));
    out << header;
  }
  return static_cast<bool>(out.flush());
}

void seal_luks2_header(std::string& file, std::size_t start, std::size_t size_bytes) {
  file.replace(start + kChecksumField, kChecksumFieldBytes, kChecksumFieldBytes, '\0');
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(file.data() + start), size_bytes, digest);
  file.replace(start + kChecksumField, sizeof digest, reinterpret_cast<const char*>(digest),
               sizeof digest);
}

}  // namespace cryptimg::testing
