// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/model.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tests/model/random.h"

namespace cryptimg::model {

Model::Model(std::uint64_t size_bytes) : bytes_(size_bytes) {
  reset();
}

void Model::reset() {
  fill(bytes_, 0);
}

std::uint64_t Model::inside_bytes(std::uint64_t offset, std::uint64_t length) const {
  return offset >= size_bytes() ? 0 : std::min(length, size_bytes() - offset);
}

void Model::write(std::uint64_t offset, std::span<const std::byte> source) {
  if (const std::uint64_t length = inside_bytes(offset, source.size()); length > 0) {
    std::memcpy(bytes_.data() + offset, source.data(), length);
  }
}

void Model::zero(std::uint64_t offset, std::uint64_t length) {
  if (const std::uint64_t inside = inside_bytes(offset, length); inside > 0) {
    std::memset(bytes_.data() + offset, 0, inside);
  }
}

void Model::spoil(std::uint64_t offset) {
  if (offset < size_bytes()) {
    bytes_[offset] ^= std::byte{1};
  }
}

std::optional<std::string> Model::difference(std::uint64_t offset,
                                             std::span<const std::byte> got) const {
  if (std::memcmp(bytes_.data() + offset, got.data(), got.size()) == 0) {
    return std::nullopt;
  }
  const std::byte* const expected = bytes_.data() + offset;
  std::size_t first = got.size();
  std::size_t last = 0;
  std::size_t count = 0;
  for (std::size_t index = 0; index < got.size(); ++index) {
    if (got[index] != expected[index]) {
      first = std::min(first, index);
      last = index;
      ++count;
    }
  }
  std::ostringstream text;
  text << count << " wrong bytes, the first at " << offset + first << " (is "
       << std::to_integer<int>(got[first]) << ", should be "
       << std::to_integer<int>(expected[first]) << "), the last at " << offset + last;
  return text.str();
}

}  // namespace cryptimg::model
