// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/header_copies.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <sodium.h>

namespace cryptimg {
namespace {

constexpr std::size_t kBinaryHeaderBytes = 4096;
constexpr std::uint64_t kMaxCopyBytes = std::uint64_t{4} << 20;
constexpr std::size_t kVersionAt = 6;
constexpr std::size_t kSizeAt = 8;
constexpr std::size_t kSequenceAt = 16;
constexpr std::size_t kAlgorithmAt = 72;
constexpr std::size_t kAlgorithmBytes = 32;
constexpr std::size_t kChecksumAt = 448;
constexpr std::size_t kChecksumBytes = 64;
constexpr std::size_t kLuks1PayloadAt = 104;
constexpr std::string_view kFirstMagic{"LUKS\xba\xbe", 6};
constexpr std::string_view kSecondMagic{"SKUL\xba\xbe", 6};

std::uint64_t big_endian(const std::byte* bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value = value << 8 | static_cast<std::uint64_t>(bytes[i]);
  }
  return value;
}

bool starts_with(const std::vector<std::byte>& copy, std::string_view magic) {
  return copy.size() >= magic.size() && std::memcmp(copy.data(), magic.data(), magic.size()) == 0;
}

struct Copy {
  bool is_whole = false;
  bool is_judged = true;  // false for a checksum we do not compute
  std::uint64_t sequence = 0;
};

Copy read_copy(const ContainerFile& file, std::uint64_t offset_bytes, std::uint64_t size_bytes,
               std::string_view magic) {
  std::vector<std::byte> bytes(size_bytes);
  if (!read_exactly(file.fd.get(), bytes.data(), bytes.size(), offset_bytes) ||
      !starts_with(bytes, magic) || big_endian(&bytes[kSizeAt], 8) != size_bytes) {
    return {};
  }
  std::array<char, kAlgorithmBytes + 1> algorithm{};
  std::memcpy(algorithm.data(), &bytes[kAlgorithmAt], kAlgorithmBytes);
  if (std::string_view(algorithm.data()) != "sha256") {
    return {true, false, 0};
  }
  std::array<std::byte, kChecksumBytes> stored{};
  std::copy_n(bytes.begin() + kChecksumAt, kChecksumBytes, stored.begin());
  std::fill_n(bytes.begin() + kChecksumAt, kChecksumBytes, std::byte{0});
  std::array<unsigned char, crypto_hash_sha256_BYTES> computed{};
  crypto_hash_sha256(computed.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size());
  return {std::memcmp(computed.data(), stored.data(), computed.size()) == 0, true,
          big_endian(&bytes[kSequenceAt], 8)};
}

}  // namespace

std::string header_copies_warning(const ContainerFile& file, std::uint64_t metadata_size_bytes) {
  if (metadata_size_bytes < kBinaryHeaderBytes || metadata_size_bytes > kMaxCopyBytes) {
    return {};
  }
  const Copy first = read_copy(file, 0, metadata_size_bytes, kFirstMagic);
  const Copy second = read_copy(file, metadata_size_bytes, metadata_size_bytes, kSecondMagic);
  if (!first.is_judged || !second.is_judged ||
      (first.is_whole && second.is_whole && first.sequence == second.sequence)) {
    return {};
  }
  const bool first_is_bad =
      !first.is_whole || (second.is_whole && first.sequence < second.sequence);
  return std::string(first_is_bad ? "the first" : "the second") +
         " copy of its LUKS2 header is damaged and only the other is left: unmount it, make a copy "
         "of the container, and run 'cryptsetup repair'";
}

std::uint64_t own_header_end(const ContainerFile& file) {
  std::vector<std::byte> start(kBinaryHeaderBytes);
  if (!read_exactly(file.fd.get(), start.data(), start.size(), 0) ||
      !starts_with(start, kFirstMagic)) {
    return 0;
  }
  if (big_endian(&start[kVersionAt], 2) == 1) {
    return big_endian(&start[kLuks1PayloadAt], 4) * 512;
  }
  const std::uint64_t copy_bytes = big_endian(&start[kSizeAt], 8);
  return 2 * std::clamp<std::uint64_t>(copy_bytes, kBinaryHeaderBytes, kMaxCopyBytes);
}

}  // namespace cryptimg
