// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/sizes.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

TEST(Sizes, SuffixesArePowersOf1024) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("512"), 512U);
  EXPECT_EQ(parse_size("1K"), 1024U);
  EXPECT_EQ(parse_size("3m"), std::uint64_t{3} << 20);
  EXPECT_EQ(parse_size("1G"), std::uint64_t{1} << 30);
  EXPECT_EQ(parse_size("2T"), std::uint64_t{2} << 40);
}

TEST(Sizes, WhatIsNoSizeIsRefused) {
  for (const char* text :
       {"", "K", "-1", "+1", " 1", "1 ", "1KB", "1KK", "1.5G", "0x10", "1P", "x"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(Sizes, NothingWraps) {
  EXPECT_EQ(parse_size("9223372036854775807"), std::uint64_t{INT64_MAX});
  EXPECT_FALSE(parse_size("9223372036854775808"));
  EXPECT_EQ(parse_size("8388607T"), std::uint64_t{8388607} << 40);
  EXPECT_FALSE(parse_size("8388608T"));
  EXPECT_FALSE(parse_size("16777216T"));
  EXPECT_FALSE(parse_size("99999999999999T"));
  EXPECT_FALSE(parse_size("99999999999999999999"));
}

TEST(Sizes, NumbersKeepToTheirRange) {
  EXPECT_EQ(parse_number("7", 0, 31), 7U);
  EXPECT_EQ(parse_number("31", 0, 31), 31U);
  EXPECT_FALSE(parse_number("32", 0, 31));
  EXPECT_FALSE(parse_number("0", 1, 31));
  EXPECT_FALSE(parse_number("-1", 0, 31));
  EXPECT_FALSE(parse_number("1K", 0, 31));
}

TEST(Sizes, OctalModes) {
  EXPECT_EQ(parse_octal_mode("022"), 022U);
  EXPECT_EQ(parse_octal_mode("777"), 0777U);
  EXPECT_FALSE(parse_octal_mode("1000"));
  EXPECT_FALSE(parse_octal_mode("8"));
  EXPECT_FALSE(parse_octal_mode(""));
}

TEST(Sizes, ForPeople) {
  EXPECT_EQ(human_size(0), "0 bytes");
  EXPECT_EQ(human_size(1), "1 byte");
  EXPECT_EQ(human_size(1023), "1023 bytes");
  EXPECT_EQ(human_size(1024), "1 KiB");
  EXPECT_EQ(human_size(1536), "1.5 KiB");
  EXPECT_EQ(human_size(std::uint64_t{1} << 30), "1 GiB");
  EXPECT_EQ(human_size(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(size_text(1), "1 byte");
  EXPECT_EQ(size_text(512), "512 bytes");
  EXPECT_EQ(size_text(1536), "1536 bytes (1.5 KiB)");
}

}  // namespace
}  // namespace cryptimg
