// SPDX-License-Identifier: GPL-3.0-or-later
//
// What reaches a terminal, a log and JSON of text from outside, judged by the C library's own
// decoder of UTF-8. Input: the text.
#include <string>

#include <iconv.h>

#include "core/text.h"
#include "tests/fuzz/fuzz.h"

namespace {

// The code points, or "-" where the text is no UTF-8.
std::u32string decoded(const std::string& text) {
  static const iconv_t converter = ::iconv_open("UTF-32LE", "UTF-8");
  FUZZ_CHECK(converter != iconv_t(-1));
  std::u32string points(text.size() + 1, U'\0');
  std::string copy = text;
  char* from = copy.data();
  std::size_t left = copy.size();
  char* to = reinterpret_cast<char*>(points.data());
  std::size_t room = points.size() * sizeof(char32_t);
  ::iconv(converter, nullptr, nullptr, nullptr, nullptr);
  if (::iconv(converter, &from, &left, &to, &room) == static_cast<std::size_t>(-1)) {
    return U"-";
  }
  points.resize(points.size() - room / sizeof(char32_t));
  return points;
}

bool is_fit(char32_t point) {
  return point >= 0x20 && (point < 0x7F || point > 0x9F) && point != 0x200E && point != 0x200F &&
         (point < 0x2028 || point > 0x202E) && (point < 0x2066 || point > 0x2069);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg;
  static fuzz::Reach reach{"valid", "invalid", "escaped", "cut"};
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool is_valid = text == "-" || decoded(text) != U"-";
  reach.at(is_valid ? "valid" : "invalid");

  const std::string json = valid_text(text);
  FUZZ_CHECK(json == "-" || decoded(json) != U"-");
  FUZZ_CHECK((json == text) == is_valid);

  const std::string shown = printable(text);
  const std::u32string points = decoded(shown);
  FUZZ_CHECK(std::all_of(points.begin(), points.end(), is_fit));
  FUZZ_CHECK(shown == "-" || points != U"-");
  const std::u32string plain = decoded(text);
  const bool is_plain = is_valid && std::all_of(plain.begin(), plain.end(), is_fit);
  FUZZ_CHECK(text.size() > kMaxShownBytes || (shown == text) == is_plain);
  FUZZ_CHECK(shown.size() > kMaxShownBytes || printable(shown) == shown);
  if (shown != text) {
    reach.at("escaped");
  }
  const std::string cut = printable(text, 8);
  FUZZ_CHECK(cut.size() <= 8 * 4 + 3);
  if (text.size() > 8) {
    FUZZ_CHECK(cut.ends_with("..."));
    reach.at("cut");
  }
  return 0;
}
