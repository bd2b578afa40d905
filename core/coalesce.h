// SPDX-License-Identifier: GPL-3.0-or-later
//
// Coalescing: which of several pending byte ranges become one extent. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/extent.h"

namespace cryptimg {

// The first ranges of a list, and what they cover together.
struct Run {
  std::size_t count = 0;
  ByteExtent range;
};

// How many of `sorted`, from its first on, become one extent: each touches or overlaps what the
// ones before it cover, counted in whole sectors, and all of it together is at most
// `max_extent_bytes` long (the first range is taken whatever its length). Called again with the
// rest it cuts the list into runs that are in order, do not overlap except where max_extent_bytes
// parted them, and hold every range once. REQUIRES: sorted is not empty and ordered by offset, no
// range is empty, sector_size a power of two.
Run next_run(std::span<const ByteExtent> sorted, std::uint64_t max_extent_bytes,
             std::uint32_t sector_size_bytes);

}  // namespace cryptimg
