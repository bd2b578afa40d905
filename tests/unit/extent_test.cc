// SPDX-License-Identifier: GPL-3.0-or-later
//
// Extents as laws, on random ranges.
#include "core/extent.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr int kRounds = 20000;

class ExtentLaws : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  std::mt19937_64 random_{GetParam()};
};

TEST_P(ExtentLaws, CoverIsTheSmallestExtentThatHoldsTheRange) {
  const std::uint32_t sector = GetParam();
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t offset = below(std::uint64_t{1} << (10 + below(40)));
    const std::uint64_t length = 1 + below(std::uint64_t{1} << (1 + below(22)));
    const ByteExtent bytes = to_bytes(cover(offset, length, sector), sector);
    ASSERT_LE(bytes.offset_bytes, offset);
    ASSERT_GE(bytes.end_bytes(), offset + length);
    ASSERT_LT(offset - bytes.offset_bytes, sector);
    ASSERT_LT(bytes.end_bytes() - (offset + length), sector);
    ASSERT_EQ(bytes.offset_bytes % sector, 0U);
    ASSERT_EQ(bytes.length_bytes % sector, 0U);
  }
}

TEST_P(ExtentLaws, CoveringWholeSectorsChangesNothing) {
  const std::uint32_t sector = GetParam();
  for (int round = 0; round < kRounds; ++round) {
    const Extent extent{below(std::uint64_t{1} << 40), 1 + below(4096)};
    const ByteExtent bytes = to_bytes(extent, sector);
    ASSERT_EQ(cover(bytes.offset_bytes, bytes.length_bytes, sector), extent);
  }
}

INSTANTIATE_TEST_SUITE_P(SectorSizes, ExtentLaws, ::testing::Values(512U, 1024U, 2048U, 4096U));

TEST(ExtentTest, ChunksAreAPartition) {
  std::mt19937_64 random{7};
  for (int round = 0; round < kRounds; ++round) {
    const Extent extent{random() >> 20, 1 + random() % 300};
    const std::uint64_t limit = 1 + random() % 320;
    const std::uint64_t count = chunk_count(extent, limit);
    ASSERT_GE(count, 1U);
    std::uint64_t next = extent.first_sector;
    for (std::uint64_t index = 0; index < count; ++index) {
      const Extent part = chunk(extent, limit, index);
      ASSERT_EQ(part.first_sector, next);
      ASSERT_GE(part.sector_count, 1U);
      ASSERT_TRUE(part.sector_count == limit || (index == count - 1 && part.sector_count < limit));
      next = part.end_sector();
    }
    ASSERT_EQ(next, extent.end_sector());
  }
}

TEST(ExtentTest, InsideDoesNotOverflow) {
  EXPECT_TRUE(inside(0, 0, 0));
  EXPECT_TRUE(inside(10, 0, 10));
  EXPECT_TRUE(inside(3, 7, 10));
  EXPECT_FALSE(inside(4, 7, 10));
  EXPECT_FALSE(inside(11, 0, 10));
  EXPECT_FALSE(inside(1, kMax, 10));
  EXPECT_FALSE(inside(kMax, 1, 10));
  EXPECT_FALSE(inside(kMax, kMax, kMax));
  EXPECT_TRUE(inside(0, kMax, kMax));
}

}  // namespace
}  // namespace cryptimg
