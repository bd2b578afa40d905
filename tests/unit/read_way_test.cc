// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/read_way.h"

#include <gtest/gtest.h>

namespace cryptimg::test {
namespace {

using Way = ReadWay::Way;
constexpr std::uint64_t kMiB = 1U << 20;

// How many of the next `count` choices are views, where each way takes what is said.
unsigned views_of(ReadWay& way, unsigned count, std::uint64_t view_ns, std::uint64_t read_ns) {
  unsigned views = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Way chosen = way.choose();
    views += chosen == Way::view ? 1 : 0;
    way.note(chosen, kMiB, chosen == Way::view ? view_ns : read_ns);
  }
  return views;
}

TEST(ReadWay, TriesBothThenTakesTheFaster) {
  ReadWay fast_views;
  EXPECT_EQ(fast_views.choose(), Way::view);
  EXPECT_EQ(fast_views.choose(), Way::view) << "until it is measured";
  fast_views.note(Way::view, kMiB, 100);
  EXPECT_EQ(fast_views.choose(), Way::read);
  EXPECT_GE(views_of(fast_views, 1000, 100, 150), 980U);

  ReadWay slow_views;
  EXPECT_LE(views_of(slow_views, 1000, 150, 100), 20U);
  EXPECT_GE(views_of(slow_views, 1000, 150, 100), 1U) << "never tried again";
}

TEST(ReadWay, NoticesWhenTheOtherBecomesFaster) {
  ReadWay way;
  views_of(way, 1000, 100, 150);
  views_of(way, 1000, 400, 150);
  EXPECT_LE(views_of(way, 1000, 400, 150), 20U);
  views_of(way, 2000, 50, 150);
  EXPECT_GE(views_of(way, 1000, 50, 150), 980U);
}

TEST(ReadWay, OneLateThreadChangesNothing) {
  ReadWay way;
  views_of(way, 1000, 100, 150);
  way.note(Way::view, kMiB, 1'000'000'000);
  EXPECT_GE(views_of(way, 200, 100, 150), 180U);
}

TEST(ReadWay, CostsAreByTheByte) {
  ReadWay way;
  way.note(Way::view, kMiB, 1000);
  way.note(Way::read, kMiB / 16, 100);  // 1600 a MiB
  EXPECT_EQ(way.choose(), Way::view);
}

}  // namespace
}  // namespace cryptimg::test
