// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/extent.h"

#include <algorithm>

namespace cryptimg {

Extent cover(std::uint64_t offset_bytes, std::uint64_t length_bytes,
             std::uint32_t sector_size_bytes) {
  const std::uint64_t first = offset_bytes / sector_size_bytes;
  const std::uint64_t last = (offset_bytes + length_bytes - 1) / sector_size_bytes;
  return {first, last - first + 1};
}

ByteExtent to_bytes(const Extent& extent, std::uint32_t sector_size_bytes) {
  return {extent.first_sector * sector_size_bytes, extent.sector_count * sector_size_bytes};
}

std::uint64_t chunk_count(const Extent& extent, std::uint64_t chunk_sectors) {
  return (extent.sector_count - 1) / chunk_sectors + 1;
}

Extent chunk(const Extent& extent, std::uint64_t chunk_sectors, std::uint64_t index) {
  const std::uint64_t skipped = index * chunk_sectors;
  return {extent.first_sector + skipped, std::min(chunk_sectors, extent.sector_count - skipped)};
}

bool inside(std::uint64_t offset_bytes, std::uint64_t length_bytes, std::uint64_t size_bytes) {
  return offset_bytes <= size_bytes && length_bytes <= size_bytes - offset_bytes;
}

}  // namespace cryptimg
