// SPDX-License-Identifier: GPL-3.0-or-later
//
// Extent arithmetic against a bitmap of sectors, and against arithmetic that cannot overflow.
// Input: sector size, offset, length, size of a chunk; then three numbers of 64 bits.
#include <bitset>
#include <cstdint>

#include "core/extent.h"
#include "tests/fuzz/fuzz.h"

namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t kSectors = 1024;
using Bitmap = std::bitset<kSectors>;

// The sectors that hold a byte of the range, one byte after the other.
Bitmap sectors_of(std::uint64_t offset, std::uint64_t length, std::uint32_t sector_size) {
  Bitmap bitmap;
  for (std::uint64_t at = offset; at < offset + length; ++at) {
    bitmap.set(at / sector_size);
  }
  return bitmap;
}

Bitmap sectors_of(const cryptimg::Extent& extent) {
  Bitmap bitmap;
  for (std::uint64_t sector = extent.first_sector; sector < extent.end_sector(); ++sector) {
    bitmap.set(sector);
  }
  return bitmap;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg;
  static fuzz::Reach reach{"one chunk", "several chunks", "inside", "outside"};
  fuzz::Input input(data, size);
  const auto sector_size = static_cast<std::uint32_t>(512U << input.number(1) % 4);
  const std::uint64_t offset = input.number(2) * 3 % 65521;
  const std::uint64_t length = 1 + input.number(2) % 65536;
  const std::uint64_t chunk_sectors = 1 + input.number(1);

  const Extent extent = cover(offset, length, sector_size);
  const Bitmap wanted = sectors_of(offset, length, sector_size);
  FUZZ_CHECK(sectors_of(extent) == wanted);
  FUZZ_CHECK(extent.sector_count == wanted.count());
  const ByteExtent bytes = to_bytes(extent, sector_size);
  FUZZ_CHECK(bytes.offset_bytes <= offset && bytes.end_bytes() >= offset + length);
  FUZZ_CHECK(cover(bytes.offset_bytes, bytes.length_bytes, sector_size) == extent);

  Bitmap cut;
  const std::uint64_t count = chunk_count(extent, chunk_sectors);
  reach.at(count == 1 ? "one chunk" : "several chunks");
  for (std::uint64_t index = 0; index < count; ++index) {
    const Extent piece = chunk(extent, chunk_sectors, index);
    const Bitmap sectors = sectors_of(piece);
    FUZZ_CHECK(sectors.any() && (cut & sectors).none());
    FUZZ_CHECK(sectors.count() == chunk_sectors || index + 1 == count);
    FUZZ_CHECK(sectors.count() <= chunk_sectors);
    cut |= sectors;
  }
  FUZZ_CHECK(cut == wanted);

  const std::uint64_t at = input.number(8);
  const std::uint64_t run = input.number(8);
  const std::uint64_t all = input.number(8);
  const bool is_inside = Wide{at} + run <= all;
  FUZZ_CHECK(inside(at, run, all) == is_inside);
  reach.at(is_inside ? "inside" : "outside");
  if (is_inside && run > 0) {
    const Extent large = cover(at, run, sector_size);
    FUZZ_CHECK(Wide{large.first_sector} * sector_size <= at);
    FUZZ_CHECK(Wide{large.end_sector()} * sector_size >= Wide{at} + run);
    FUZZ_CHECK(Wide{large.first_sector + 1} * sector_size > at);
    FUZZ_CHECK(Wide{large.end_sector() - 1} * sector_size < Wide{at} + run);
  }
  return 0;
}
