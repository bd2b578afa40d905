// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fuse/commands.h"

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

std::string escape(const std::string& text, bool controls) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  std::string_view rest = text;
  while (!rest.empty()) {
    const Sequence sequence = decode(rest);
    const std::size_t length = sequence.length == 0 ? 1 : sequence.length;
    if (sequence.length != 0 && !(controls && is_control(sequence.code_point))) {
      out.append(rest.substr(0, length));
    } else {
      for (const char c : rest.substr(0, length)) {
        const auto value = static_cast<unsigned char>(c);
        out.append({'\\', 'x', kHex[value >> 4], kHex[value & 0xFU]});
      }
    }
    rest.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string printable(const std::string& text) {
  return escape(text, true);
}

std::string valid_text(const std::string& text) {
  return escape(text, false);
}

ExitCode report(const Error& error, bool json) {
  std::string message = error.message;
  if (message.empty()) {
    message = error.os_errno != 0 ? std::strerror(error.os_errno) : "the operation failed";
  }
  message = printable(message);
  const ExitCode code = exit_code(error);
  if (json) {
    const nlohmann::ordered_json object = {{"error", message},
                                           {"exit_code", static_cast<int>(code)}};
    std::fprintf(stderr, "%s\n", object.dump().c_str());
  } else {
    std::fprintf(stderr, "cryptimg: %s.\n", message.c_str());
  }
  return code;
}

}  // namespace cryptimg
