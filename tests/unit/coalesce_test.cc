// SPDX-License-Identifier: GPL-3.0-or-later
//
// The laws of coalescing over random lists of requests. The oracle is a bitmap of sectors, which
// knows nothing of runs.
#include "core/coalesce.h"

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

constexpr std::uint64_t kImageBytes = 256U << 10;

struct Shape {
  std::uint32_t sector_size_bytes;
  std::uint64_t max_extent_bytes;
  std::uint64_t max_length_bytes;
  std::uint64_t unit_bytes;  // offsets and lengths are multiples of it
};

std::vector<ByteExtent> random_ranges(std::mt19937_64& random, const Shape& shape) {
  std::vector<ByteExtent> ranges(1 + random() % 40);
  for (ByteExtent& range : ranges) {
    range.length_bytes =
        shape.unit_bytes * (1 + random() % (shape.max_length_bytes / shape.unit_bytes));
    range.offset_bytes =
        shape.unit_bytes * (random() % ((kImageBytes - range.length_bytes) / shape.unit_bytes + 1));
  }
  std::sort(ranges.begin(), ranges.end(), [](const ByteExtent& a, const ByteExtent& b) {
    return a.offset_bytes < b.offset_bytes;
  });
  return ranges;
}

// The sectors that any of the ranges touches.
std::vector<bool> touched(std::span<const ByteExtent> ranges, std::uint32_t sector_size_bytes) {
  std::vector<bool> sectors(kImageBytes / sector_size_bytes);
  for (const ByteExtent& range : ranges) {
    for (std::uint64_t byte = range.offset_bytes; byte < range.end_bytes(); ++byte) {
      sectors[byte / sector_size_bytes] = true;
    }
  }
  return sectors;
}

class CoalesceLaws : public ::testing::TestWithParam<Shape> {};

TEST_P(CoalesceLaws, HoldForRandomLists) {
  const Shape shape = GetParam();
  std::mt19937_64 random(4711);
  std::uint64_t merged = 0;
  std::uint64_t runs = 0;
  for (int round = 0; round < 150; ++round) {
    const std::vector<ByteExtent> ranges = random_ranges(random, shape);
    std::span<const ByteExtent> rest = ranges;
    std::uint64_t previous_begin = 0;
    while (!rest.empty()) {
      const auto run = next_run(rest, shape.max_extent_bytes, shape.sector_size_bytes);
      // Each range is in exactly one run: the runs consume the list from its front.
      ASSERT_GE(run.count, 1U);
      ASSERT_LE(run.count, rest.size());
      const auto members = rest.first(run.count);
      // Exact cover: from the first byte of any member to the last of any, and no sector of it but
      // what a member touches: no gap is bridged.
      std::uint64_t end_bytes = 0;
      for (const ByteExtent& member : members) {
        end_bytes = std::max(end_bytes, member.end_bytes());
      }
      ASSERT_EQ(run.range.offset_bytes, members.front().offset_bytes);
      ASSERT_EQ(run.range.end_bytes(), end_bytes);
      ASSERT_EQ(touched(members, shape.sector_size_bytes),
                touched({&run.range, 1}, shape.sector_size_bytes));
      // Order, and the limit, which only a single range may exceed.
      ASSERT_GE(run.range.offset_bytes, previous_begin);
      ASSERT_TRUE(run.count == 1 || run.range.length_bytes <= shape.max_extent_bytes);
      previous_begin = run.range.offset_bytes;
      rest = rest.subspan(run.count);
      // Nothing is left out without a reason: what comes next is beyond a gap, or too much.
      if (!rest.empty()) {
        const std::uint64_t all_bytes =
            std::max(end_bytes, rest.front().end_bytes()) - run.range.offset_bytes;
        const std::uint64_t next_sector = rest.front().offset_bytes / shape.sector_size_bytes;
        const std::uint64_t last_sector = (end_bytes - 1) / shape.sector_size_bytes;
        ASSERT_TRUE(next_sector > last_sector + 1 || all_bytes > shape.max_extent_bytes);
      }
      merged += run.count - 1;
      ++runs;
    }
  }
  EXPECT_GT(merged, 0U) << "the lists were too thin to prove anything";
  EXPECT_GT(runs, 150U);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CoalesceLaws,
    ::testing::Values(Shape{512, 1U << 20, 4096, 1}, Shape{512, 16384, 8192, 512},
                      Shape{4096, 1U << 20, 4096, 4096}, Shape{4096, 32768, 20000, 1},
                      Shape{1024, 4096, 16384, 1}, Shape{2048, 65536, 3000, 300}));

TEST(Coalesce, RangesThatShareOrTouchASectorBecomeOne) {
  const std::vector<ByteExtent> ranges{{0, 100}, {200, 100}, {512, 512}, {1024, 1}};
  EXPECT_EQ(next_run(ranges, 1U << 20, 512).count, 4U);
  EXPECT_EQ(next_run(ranges, 1U << 20, 512).range, (ByteExtent{0, 1025}));
}

TEST(Coalesce, OneSectorBetweenIsAGap) {
  const std::vector<ByteExtent> ranges{{0, 512}, {1024, 512}};
  EXPECT_EQ(next_run(ranges, 1U << 20, 512).count, 1U);
  EXPECT_EQ(next_run(ranges, 1U << 20, 1024).count, 2U) << "with larger sectors there is none";
}

TEST(Coalesce, TheLimitIsExact) {
  const std::vector<ByteExtent> ranges{{0, 4096}, {4096, 4096}, {8192, 4096}};
  EXPECT_EQ(next_run(ranges, 12288, 512).count, 3U);
  EXPECT_EQ(next_run(ranges, 12287, 512).count, 2U);
  EXPECT_EQ(next_run(ranges, 1, 512).count, 1U);
}

TEST(Coalesce, ARangeInsideAnotherDoesNotShortenIt) {
  const std::vector<ByteExtent> ranges{{0, 8192}, {512, 512}, {8192, 512}};
  EXPECT_EQ(next_run(ranges, 1U << 20, 512).count, 3U);
  EXPECT_EQ(next_run(ranges, 1U << 20, 512).range, (ByteExtent{0, 8704}));
}

}  // namespace
}  // namespace cryptimg
