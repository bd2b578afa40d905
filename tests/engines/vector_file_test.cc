// SPDX-License-Identifier: GPL-3.0-or-later
//
// The strictness of the vector files' parser: what it lets through untested would hide a wrong
// engine.
#include "tests/support/vector_file.h"

#include <string>

#include <gtest/gtest.h>

namespace cryptimg::test {
namespace {

TEST(VectorFile, ReadsRecordsContinuationsAndComments) {
  auto records = parse_vectors(
      "# a comment\n\nname = first\nkey =\n  00ff\n# between\n  10\n\n\nname = second\ncount = "
      "42\n",
      "text");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].place(), "text:3");
  EXPECT_EQ(records[0].text("name"), "first");
  EXPECT_EQ(records[0].bytes("key"),
            (std::vector<std::byte>{std::byte{0}, std::byte{0xff}, std::byte{0x10}}));
  EXPECT_NO_THROW(records[0].expect_all_read());
  EXPECT_EQ(records[1].text("name"), "second");
  EXPECT_EQ(records[1].number("count"), 42U);
}

TEST(VectorFile, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"", "# only\n", "name\n", " = value\n", "= value\n", "  continued\n",
                           "name = a\n\n  continued\n", "name = a\nname = b\n"}) {
    EXPECT_THROW(parse_vectors(text, "text"), VectorError) << text;
  }
}

TEST(VectorFile, RefusesValuesOfAnotherKind) {
  VectorRecord record("here");
  record.add("odd", "123");
  record.add("nothex", "0g");
  record.add("sign", "-1");
  record.add("tail", "12x");
  record.add("large", "18446744073709551616");
  record.add("empty", "");
  for (const char* attribute : {"odd", "nothex", "sign", "empty", "missing"}) {
    EXPECT_THROW(record.bytes(attribute), VectorError) << attribute;
  }
  for (const char* attribute : {"sign", "tail", "large", "empty", "missing"}) {
    EXPECT_THROW(record.number(attribute), VectorError) << attribute;
  }
}

TEST(VectorFile, RefusesAttributesThatNobodyReads) {
  VectorRecord record("here");
  record.add("name", "a");
  record.add("tag", "00");
  EXPECT_EQ(record.text("name"), "a");
  EXPECT_THROW(record.expect_all_read(), VectorError);
  EXPECT_EQ(record.bytes("tag").size(), 1U);
  EXPECT_NO_THROW(record.expect_all_read());
}

}  // namespace
}  // namespace cryptimg::test
