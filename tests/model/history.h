// SPDX-License-Identifier: GPL-3.0-or-later
//
// Judging what threads saw that read and wrote the same places at once.
//
// The image is divided into cells (a sector, or less). A write puts one tag, its own alone, all
// over each cell it covers; so what a read finds in a cell says whose write it saw, or that it saw
// parts of several. Each read and write has a beginning and an end by one clock. A cell is judged
// right if there is an order of its reads and writes in which each happens at one moment between
// its beginning and its end and each read finds the latest write before it: old or new, never
// something else, and never old again after new.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cryptimg::model {

using Tag = std::uint64_t;

inline constexpr unsigned kSequenceBits = 40;
constexpr Tag make_tag(std::uint64_t writer, std::uint64_t sequence) {
  return writer << kSequenceBits | sequence;
}
// "write SEQUENCE of thread WRITER"
std::string to_text(Tag tag);

// REQUIRES for both: the cell's size is a multiple of 8.
void write_cell(std::span<std::byte> cell, std::uint64_t cell_number, Tag tag);
// None where the cell is not of one piece.
std::optional<Tag> read_cell(std::span<const std::byte> cell, std::uint64_t cell_number);

// A read or write of one cell. No two moments are equal, and all come after 0.
struct Event {
  std::uint64_t cell_number = 0;
  Tag tag = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool is_read = false;
};

// Judges the events of one cell, which held `initial` before; their order does not matter. None if
// all is right, else a sentence.
std::optional<std::string> judge(Tag initial, std::span<const Event> events);

}  // namespace cryptimg::model
