// SPDX-License-Identifier: GPL-3.0-or-later
//
// Extents: runs of whole sectors, and the arithmetic between byte ranges and them. Value types and
// pure functions, any thread. `sector` is always the encryption sector (512 to 4096 bytes).
#pragma once

#include <cstdint>

namespace cryptimg {

// A run of whole sectors.
struct Extent {
  std::uint64_t first_sector = 0;
  std::uint64_t sector_count = 0;

  [[nodiscard]] std::uint64_t end_sector() const { return first_sector + sector_count; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// The same run in bytes.
struct ByteExtent {
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;

  [[nodiscard]] std::uint64_t end_bytes() const { return offset_bytes + length_bytes; }
  friend bool operator==(const ByteExtent&, const ByteExtent&) = default;
};

// The smallest extent that holds every byte of [offset, offset + length).
// REQUIRES: length > 0, no overflow, sector_size a power of two.
Extent cover(std::uint64_t offset_bytes, std::uint64_t length_bytes,
             std::uint32_t sector_size_bytes);

ByteExtent to_bytes(const Extent& extent, std::uint32_t sector_size_bytes);

// How many chunks of at most `chunk_sectors` an extent is cut into, and the index-th of them. The
// chunks are a partition: in order, no gap, no overlap, each but the last of chunk_sectors.
// REQUIRES: chunk_sectors > 0, extent not empty; index < chunk_count().
std::uint64_t chunk_count(const Extent& extent, std::uint64_t chunk_sectors);
Extent chunk(const Extent& extent, std::uint64_t chunk_sectors, std::uint64_t index);

// Whether `offset` and `length` describe a range inside [0, size), without overflow.
bool inside(std::uint64_t offset_bytes, std::uint64_t length_bytes, std::uint64_t size_bytes);

}  // namespace cryptimg
