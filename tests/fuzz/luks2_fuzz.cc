// SPDX-License-Identifier: GPL-3.0-or-later
//
// Opening a LUKS2 container, through libcryptsetup up to our own checks. Checksums are made right,
// or nothing but them would ever be tried.
// Input: one byte of choices, 512 bytes of binary header, the JSON.
#include <string>

#include "tests/fuzz/header_file.h"
#include "tests/support/luks2_edit.h"

namespace cryptimg::fuzz {
namespace {

constexpr std::size_t kFieldsBytes = 512;
constexpr std::size_t kBinaryBytes = 4096;
constexpr std::size_t kSizeAt = 8;
constexpr std::size_t kOffsetAt = 256;
constexpr std::size_t kSmallestBytes = 16384;
constexpr std::size_t kLargestBytes = 131072;  // of those the format knows; more is only slow
constexpr std::uint64_t kFileBytes = std::uint64_t{4} << 20;

enum Choice : unsigned {
  wrong_checksums = 1,
  spoilt_first = 2,
  spoilt_second = 4,
  short_file = 8,
};

std::uint64_t big_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) {
    value = value << 8 | static_cast<unsigned char>(c);
  }
  return value;
}

std::string copy_of(std::string fields, std::string_view json, std::size_t size_bytes, bool second,
                    bool sealed) {
  if (second) {
    fields.replace(0, 4, "SKUL");
    for (std::size_t i = 0; i < 8; ++i) {
      fields[kOffsetAt + i] = static_cast<char>(size_bytes >> (56 - 8 * i));
    }
  }
  fields.resize(kBinaryBytes, '\0');
  std::string copy = fields + std::string(json.substr(0, size_bytes - kBinaryBytes));
  copy.resize(size_bytes, '\0');
  if (sealed) {
    testing::seal_luks2_header(copy, 0, copy.size());
  }
  return copy;
}

}  // namespace
}  // namespace cryptimg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg::fuzz;
  static Reach reach{"no header", "refused", "served", "derived"};
  static HeaderFile file;
  Input input(data, size);
  const auto choices = static_cast<unsigned>(input.number(1));
  std::string fields(input.take(kFieldsBytes));
  fields.resize(kFieldsBytes, '\0');
  std::size_t copy_bytes = big_endian(std::string_view(fields).substr(kSizeAt, 8));
  if (copy_bytes < kSmallestBytes || copy_bytes > kLargestBytes) {
    copy_bytes = kSmallestBytes;
  }
  const bool sealed = (choices & wrong_checksums) == 0;
  std::string first = copy_of(fields, input.rest(), copy_bytes, false, sealed);
  std::string second = copy_of(fields, input.rest(), copy_bytes, true, sealed);
  if ((choices & spoilt_first) != 0) {
    first[kBinaryBytes] = '!';
  }
  if ((choices & spoilt_second) != 0) {
    second[kBinaryBytes] = '!';
  }
  file.write(first + second, (choices & short_file) != 0 ? kFileBytes / 4 : kFileBytes);
  file.open_and_check(reach);
  return 0;
}
