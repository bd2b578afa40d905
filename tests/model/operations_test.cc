// SPDX-License-Identifier: GPL-3.0-or-later
//
// Traces: repeatable, of every kind, inside their part; and the model's own rules.
#include "tests/model/operations.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/model/model.h"
#include "tests/model/random.h"

namespace cryptimg::model {
namespace {

constexpr std::uint64_t kImageBytes = (4U << 20) + 512;

Plan whole(std::uint64_t seed, std::uint32_t count) {
  return {seed, count, 0, kImageBytes, kImageBytes, false};
}

TEST(Trace, FollowsFromTheSeedAlone) {
  EXPECT_EQ(make_trace(whole(5, 1000)), make_trace(whole(5, 1000)));
  EXPECT_NE(make_trace(whole(5, 1000)), make_trace(whole(6, 1000)));
}

TEST(Trace, IsReadBackAsPrinted) {
  for (const Operation& operation : make_trace(whole(1, 2000))) {
    const auto parsed = parse_operation(to_text(operation));
    ASSERT_TRUE(parsed.has_value()) << to_text(operation);
    EXPECT_EQ(*parsed, operation);
  }
}

TEST(Trace, OtherLinesAreNotRead) {
  for (const char* line : {"", "1 read", "1 read direct 0 1", "1 reed direct 0 1 2",
                           "1 read direkt 0 1 2", "1 read direct 0 1 2 3", "x read direct 0 1 2"}) {
    EXPECT_FALSE(parse_operation(line).has_value()) << line;
  }
}

TEST(Trace, HasEveryKindAndEveryAccess) {
  std::set<Kind> kinds;
  std::set<Access> accesses;
  Plan plan = whole(3, 20000);
  plan.drop_caches = true;
  for (const Operation& operation : make_trace(plan)) {
    kinds.insert(operation.kind);
    accesses.insert(operation.access);
  }
  EXPECT_EQ(kinds.size(), 20U);
  EXPECT_EQ(accesses.size(), 4U);
}

TEST(Trace, DropsTheMachinesCachesOnlyWhenAsked) {
  for (const Operation& operation : make_trace(whole(3, 20000))) {
    EXPECT_NE(operation.kind, Kind::drop_caches);
  }
}

TEST(Trace, StaysInItsPart) {
  Plan plan = whole(9, 20000);
  plan.begin = 1U << 20;
  plan.end = 2U << 20;
  for (const Operation& operation : make_trace(plan)) {
    if (operation.kind == Kind::shrink || operation.kind == Kind::grow) {
      continue;
    }
    ASSERT_GE(operation.offset, plan.begin) << to_text(operation);
    ASSERT_LE(operation.offset + operation.length, plan.end) << to_text(operation);
    ASSERT_GT(operation.length, 0U) << to_text(operation);
  }
}

TEST(Trace, OfTheWholeImageGoesAcrossItsEndAndPastIt) {
  std::size_t across = 0;
  std::size_t past = 0;
  for (const Operation& operation : make_trace(whole(4, 20000))) {
    if (operation.kind == Kind::shrink || operation.kind == Kind::grow) {
      continue;
    }
    ASSERT_GT(operation.length, 0U);
    past += operation.offset >= kImageBytes ? 1U : 0U;
    across += operation.offset < kImageBytes && operation.offset + operation.length > kImageBytes;
    if (operation.kind != Kind::read && operation.kind != Kind::write &&
        operation.kind != Kind::zero && operation.kind != Kind::zero_keep) {
      ASSERT_LE(operation.offset + operation.length, kImageBytes) << to_text(operation);
    }
  }
  EXPECT_GT(across, 20U);
  EXPECT_GT(past, 20U);
}

TEST(Model, DropsWhatLiesPastTheEnd) {
  Model model(100);
  const std::vector<std::byte> source(50, std::byte{7});
  model.write(80, source);
  model.write(100, source);
  EXPECT_EQ(model.inside_bytes(80, 50), 20U);
  EXPECT_EQ(model.inside_bytes(100, 50), 0U);
  EXPECT_EQ(model.difference(80, std::span(source).first(20)), std::nullopt);
}

TEST(Model, SaysWhereTheFirstAndLastDifferenceAre) {
  Model model(100);
  const std::vector<std::byte> right(model.bytes().begin(), model.bytes().end());
  EXPECT_EQ(model.difference(0, right), std::nullopt);
  model.spoil(10);
  model.spoil(90);
  const auto problem = model.difference(0, right);
  ASSERT_TRUE(problem.has_value());
  EXPECT_NE(problem->find("2 wrong bytes, the first at 10 "), std::string::npos) << *problem;
  EXPECT_NE(problem->find("the last at 90"), std::string::npos) << *problem;
  model.reset();
  EXPECT_EQ(model.difference(0, right), std::nullopt);
}

}  // namespace
}  // namespace cryptimg::model
