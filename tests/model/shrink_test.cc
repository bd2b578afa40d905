// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/shrink.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace cryptimg::model {
namespace {

using Clock = std::chrono::steady_clock;

Trace numbered(std::uint32_t count) {
  Trace trace(count);
  for (std::uint32_t index = 0; index < count; ++index) {
    trace[index].number = index;
  }
  return trace;
}
bool has(const Trace& trace, std::uint32_t number) {
  return std::any_of(trace.begin(), trace.end(),
                     [&](const Operation& operation) { return operation.number == number; });
}
Clock::time_point far() {
  return Clock::now() + std::chrono::hours(1);
}

TEST(Shrink, KeepsJustWhatIsNeeded) {
  const auto fails = [](const Trace& trace) { return has(trace, 3) && has(trace, 977); };
  const Shrunk result = shrink(numbered(1000), fails, far());
  EXPECT_TRUE(result.is_reproduced);
  ASSERT_EQ(result.trace.size(), 2U);
  EXPECT_EQ(result.trace[0].number, 3U);
  EXPECT_EQ(result.trace[1].number, 977U);
  EXPECT_LT(result.runs, 100U);
}

TEST(Shrink, FindsWhatCanGoOnlyAfterSomethingElseHas) {
  // 8 is needed as long as 2 is there.
  const auto fails = [](const Trace& trace) {
    return has(trace, 5) && (!has(trace, 2) || has(trace, 8));
  };
  const Shrunk result = shrink(numbered(16), fails, far());
  ASSERT_EQ(result.trace.size(), 1U);
  EXPECT_EQ(result.trace[0].number, 5U);
}

TEST(Shrink, SaysSoWhenItDoesNotFailAgain) {
  const Shrunk result = shrink(
      numbered(10), [](const Trace&) { return false; }, far());
  EXPECT_FALSE(result.is_reproduced);
  EXPECT_EQ(result.trace.size(), 10U);
  EXPECT_EQ(result.runs, 1U);
}

TEST(Shrink, StopsWhenTheTimeIsOver) {
  const Shrunk result = shrink(
      numbered(10), [](const Trace&) { return true; }, Clock::now());
  EXPECT_TRUE(result.is_reproduced);
  EXPECT_EQ(result.trace.size(), 10U);
}

}  // namespace
}  // namespace cryptimg::model
