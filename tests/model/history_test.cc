// SPDX-License-Identifier: GPL-3.0-or-later
//
// The judge of overlapping reads and writes: what it must let pass and what it must not.
#include "tests/model/history.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/model/random.h"

namespace cryptimg::model {
namespace {

constexpr Tag kOld = make_tag(0, 1);
constexpr Tag kOne = make_tag(1, 1);
constexpr Tag kTwo = make_tag(2, 1);

Event write_of(Tag tag, std::uint64_t begin, std::uint64_t end) {
  return {0, tag, begin, end, false};
}
Event read_of(Tag tag, std::uint64_t begin, std::uint64_t end) {
  return {0, tag, begin, end, true};
}
bool is_right(const std::vector<Event>& events) {
  return !judge(kOld, events).has_value();
}

TEST(Judge, AReadDuringAWriteIsOldOrNew) {
  EXPECT_TRUE(is_right({write_of(kOne, 10, 20), read_of(kOld, 11, 12), read_of(kOne, 13, 14)}));
  EXPECT_TRUE(is_right({write_of(kOne, 10, 20), read_of(kOne, 11, 15), read_of(kOld, 12, 14)}));
}

TEST(Judge, OldAfterTheWriteEndedIsWrong) {
  EXPECT_FALSE(is_right({write_of(kOne, 10, 20), read_of(kOld, 21, 22)}));
}

TEST(Judge, OldAgainAfterNewIsWrongEvenDuringTheWrite) {
  EXPECT_FALSE(is_right({write_of(kOne, 10, 20), read_of(kOne, 11, 12), read_of(kOld, 13, 14)}));
}

TEST(Judge, NewBeforeTheWriteBeganIsWrong) {
  EXPECT_FALSE(is_right({write_of(kOne, 10, 20), read_of(kOne, 5, 9)}));
}

TEST(Judge, WhatNobodyWroteIsWrong) {
  EXPECT_FALSE(is_right({write_of(kOne, 10, 20), read_of(kTwo, 21, 22)}));
}

TEST(Judge, OfTwoWritesAtOnceEitherMayBeTheLast) {
  EXPECT_TRUE(is_right({write_of(kOne, 10, 20), write_of(kTwo, 11, 21), read_of(kOne, 30, 31)}));
  EXPECT_TRUE(is_right({write_of(kOne, 10, 20), write_of(kTwo, 11, 21), read_of(kTwo, 30, 31)}));
}

TEST(Judge, TwoReadersMustAgreeWhichWriteWasTheLast) {
  EXPECT_FALSE(is_right({write_of(kOne, 10, 20), write_of(kTwo, 11, 21), read_of(kOne, 30, 31),
                         read_of(kTwo, 32, 33)}));
}

TEST(Judge, ALostWriteIsWrong) {
  EXPECT_FALSE(is_right({write_of(kOne, 10, 20), write_of(kTwo, 21, 30), read_of(kOne, 31, 32)}));
}

// Whether some order of the events is right, found by trying all: what judge() must agree with.
bool is_right_by_trial(const std::vector<Event>& events) {
  std::vector<std::size_t> order(events.size());
  std::iota(order.begin(), order.end(), 0U);
  do {
    Tag now = kOld;
    bool fits = true;
    for (std::size_t index = 0; index < order.size() && fits; ++index) {
      const Event& event = events[order[index]];
      for (std::size_t later = index + 1; later < order.size(); ++later) {
        fits = fits && events[order[later]].end > event.begin;
      }
      fits = fits && (!event.is_read || event.tag == now);
      now = event.is_read ? now : event.tag;
    }
    if (fits) {
      return true;
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(Judge, AgreesWithTryingEveryOrder) {
  Random random(1);
  std::size_t right = 0;
  constexpr std::size_t kRounds = 3000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::size_t count = random.between(2, 6);
    std::vector<std::uint64_t> moments(2 * count);
    std::iota(moments.begin(), moments.end(), 1U);
    for (std::size_t index = moments.size(); index > 1; --index) {
      std::swap(moments[index - 1], moments[random.below(index)]);
    }
    std::vector<Event> events;
    const std::size_t writes = random.between(1, std::min<std::size_t>(count - 1, 3));
    for (std::size_t index = 0; index < count; ++index) {
      const bool is_read = index >= writes;
      const Tag tag = make_tag(is_read ? random.between(0, writes) : index + 1, 1);
      events.push_back({0, tag, std::min(moments[2 * index], moments[2 * index + 1]),
                        std::max(moments[2 * index], moments[2 * index + 1]), is_read});
    }
    const bool expected = is_right_by_trial(events);
    right += expected ? 1 : 0;
    ASSERT_EQ(is_right(events), expected) << "round " << round;
  }
  EXPECT_GT(right, kRounds / 20);
  EXPECT_LT(right, kRounds - kRounds / 20);
}

TEST(Cell, IsReadBackAsWritten) {
  std::vector<std::byte> cell(512);
  write_cell(cell, 7, kTwo);
  EXPECT_EQ(read_cell(cell, 7), kTwo);
}

TEST(Cell, OfTwoWritesIsNone) {
  std::vector<std::byte> cell(512);
  std::vector<std::byte> other(512);
  write_cell(cell, 7, kOne);
  write_cell(other, 7, kTwo);
  std::copy(other.begin() + 256, other.end(), cell.begin() + 256);
  EXPECT_EQ(read_cell(cell, 7), std::nullopt);
}

TEST(Cell, WithOneWrongBitOrInAnotherPlaceIsNone) {
  std::vector<std::byte> cell(512);
  write_cell(cell, 7, kOne);
  EXPECT_EQ(read_cell(cell, 8), std::nullopt);
  cell[511] ^= std::byte{128};
  EXPECT_EQ(read_cell(cell, 7), std::nullopt);
}

}  // namespace
}  // namespace cryptimg::model
