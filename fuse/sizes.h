// SPDX-License-Identifier: GPL-3.0-or-later
//
// Numbers as people write them. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cryptimg {

// A decimal number from `minimum` to `maximum`: digits only, no sign, no space.
std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t minimum,
                                          std::uint64_t maximum);

// A size in bytes: digits and at most one of the suffixes K, M, G, T (either case; powers of
// 1024). Nothing where it does not fit 63 bits, as file offsets must.
std::optional<std::uint64_t> parse_size(std::string_view text);

// An octal mode from 0 to 0777.
std::optional<unsigned> parse_octal_mode(std::string_view text);

// "1.5 GiB": the largest unit that leaves at least 1, one decimal where it is not whole.
std::string human_size(std::uint64_t bytes);

// "1536 bytes (1.5 KiB)": exact, and for people where that differs.
std::string size_text(std::uint64_t bytes);

}  // namespace cryptimg
