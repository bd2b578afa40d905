// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/sizes.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <system_error>

#include "core/bytes.h"

namespace cryptimg {
namespace {

std::optional<std::uint64_t> parse_unsigned(std::string_view text, int base) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc{} || stop != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t minimum,
                                          std::uint64_t maximum) {
  const auto value = parse_unsigned(text, 10);
  return value && *value >= minimum && *value <= maximum ? value : std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty()) {
    constexpr std::string_view kSuffixes = "KMGTkmgt";
    const std::size_t suffix = kSuffixes.find(text.back());
    if (suffix != std::string_view::npos) {
      shift = 10 * static_cast<unsigned>(suffix % 4 + 1);
      text.remove_suffix(1);
    }
  }
  const auto count = parse_unsigned(text, 10);
  if (!count) {
    return std::nullopt;
  }
  const auto bytes = checked_mul<std::uint64_t>(*count, std::uint64_t{1} << shift);
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  return bytes && *bytes <= kMax ? bytes : std::nullopt;
}

std::optional<unsigned> parse_octal_mode(std::string_view text) {
  const auto value = parse_unsigned(text, 8);
  if (!value || *value > 0777) {
    return std::nullopt;
  }
  return static_cast<unsigned>(*value);
}

std::string human_size(std::uint64_t bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes == 1) {
    return "1 byte";
  }
  std::size_t unit = 0;
  while (unit + 1 < kUnits.size() && bytes >> (10 * (unit + 1)) != 0) {
    ++unit;
  }
  const std::uint64_t one = std::uint64_t{1} << (10 * unit);
  if (bytes % one == 0) {
    return std::to_string(bytes / one) + " " + kUnits[unit];
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s",
                static_cast<double>(bytes) / static_cast<double>(one), kUnits[unit]);
  return text.data();
}

std::string size_text(std::uint64_t bytes) {
  const std::string human = human_size(bytes);
  return bytes < 1024 ? human : std::to_string(bytes) + " bytes (" + human + ")";
}

}  // namespace cryptimg
