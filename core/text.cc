// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text.h"

#include <cstdint>

namespace cryptimg {
namespace {

// A UTF-8 sequence: its length in bytes, 0 where the bytes are no valid sequence (RFC 3629: no
// overlong forms, no surrogates, at most U+10FFFF).
struct Sequence {
  std::size_t length = 0;
  std::uint32_t code_point = 0;
};

Sequence decode(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return {1, first};
  }
  const std::size_t length = first >= 0xF0 ? 4U : first >= 0xE0 ? 3U : 2U;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) {
    return {};
  }
  std::uint32_t code_point = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return {};
    }
    code_point = code_point << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code_point < kSmallest[length] || code_point > 0x10FFFF ||
      (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    return {};
  }
  return {length, code_point};
}

// Controls of either range, and what reorders or breaks a line on a terminal.
bool is_control(std::uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F) ||
         (code_point >= 0x200E && code_point <= 0x200F) ||
         (code_point >= 0x2028 && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

std::string escape(std::string_view text, bool controls) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Sequence sequence = decode(text);
    const std::size_t length = sequence.length == 0 ? 1 : sequence.length;
    if (sequence.length != 0 && !(controls && is_control(sequence.code_point))) {
      out.append(text.substr(0, length));
    } else {
      for (const char c : text.substr(0, length)) {
        const auto value = static_cast<unsigned char>(c);
        out.append({'\\', 'x', kHex[value >> 4], kHex[value & 0xFU]});
      }
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  return escape(text.substr(0, max_bytes), true) + (text.size() > max_bytes ? "..." : "");
}

std::string valid_text(std::string_view text) {
  return escape(text, false);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace cryptimg
