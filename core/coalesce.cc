// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/coalesce.h"

#include <algorithm>

namespace cryptimg {

Run next_run(std::span<const ByteExtent> sorted, std::uint64_t max_extent_bytes,
             std::uint32_t sector_size_bytes) {
  const std::uint64_t in_sector = sector_size_bytes - 1;
  Run run{1, sorted.front()};
  for (const ByteExtent& next : sorted.subspan(1)) {
    const std::uint64_t sectors_end = (run.range.end_bytes() + in_sector) & ~in_sector;
    const std::uint64_t end_bytes = std::max(run.range.end_bytes(), next.end_bytes());
    if ((next.offset_bytes & ~in_sector) > sectors_end ||
        end_bytes - run.range.offset_bytes > max_extent_bytes) {
      break;
    }
    run.range.length_bytes = end_bytes - run.range.offset_bytes;
    ++run.count;
  }
  return run;
}

}  // namespace cryptimg
