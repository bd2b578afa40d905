// SPDX-License-Identifier: GPL-3.0-or-later
//
// Text from outside (paths, labels, what a header, a library or the kernel says): made fit to be
// shown, and taken apart. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cryptimg {

inline constexpr std::size_t kMaxShownBytes = 4096;  // as long as a path can be

// `text` with control characters, and what reorders or breaks a line on a terminal, and invalid
// UTF-8, as \xNN: nothing a container or a path says reaches a terminal raw. Where it is longer
// than `max_bytes`, that much of it and "...".
std::string printable(std::string_view text, std::size_t max_bytes = kMaxShownBytes);

// `text` with invalid UTF-8 as \xNN: what JSON, which escapes controls itself, can hold.
std::string valid_text(std::string_view text);

// The parts of `text` between separators, at least one, each maybe empty. They lie in `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace cryptimg
