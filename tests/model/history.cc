// SPDX-License-Identifier: GPL-3.0-or-later
//
// The judgement is that of Gibbons and Korach, "Testing Shared Memories" (1997), for a register
// whose written values are all different: it is exact, and takes n log n.
#include "tests/model/history.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "tests/model/random.h"

namespace cryptimg::model {
namespace {

// The events of one value. It must have been there from `first_end` to `last_begin` if those are in
// that order (it is fixed); else for some moment between them, in the other order.
struct Zone {
  Tag tag = 0;
  std::uint64_t write_begin = 0;
  std::uint64_t first_end = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t last_begin = 0;

  [[nodiscard]] bool is_fixed() const { return first_end < last_begin; }
  void add(const Event& event) {
    first_end = std::min(first_end, event.end);
    last_begin = std::max(last_begin, event.begin);
  }
};

using Zones = std::unordered_map<Tag, Zone>;

std::optional<std::string> collect(Tag initial, std::span<const Event> events, Zones& zones) {
  zones[initial] = Zone{initial, 0, 0, 0};
  for (const Event& event : events) {
    if (!event.is_read) {
      Zone& zone = zones[event.tag];
      zone.tag = event.tag;
      zone.write_begin = event.begin;
      zone.add(event);
    }
  }
  for (const Event& event : events) {
    if (!event.is_read) {
      continue;
    }
    const auto found = zones.find(event.tag);
    if (found == zones.end()) {
      return "a read found " + to_text(event.tag) + ", which was never written there";
    }
    if (event.end < found->second.write_begin) {
      return "a read found " + to_text(event.tag) + " before it was begun";
    }
    found->second.add(event);
  }
  return std::nullopt;
}

std::string both(const Zone& one, const Zone& other) {
  return "reads found " + to_text(one.tag) + " and " + to_text(other.tag) +
         " in an order that cannot be: the older one again after the newer";
}

}  // namespace

std::string to_text(Tag tag) {
  return "write " + std::to_string(tag & ((Tag{1} << kSequenceBits) - 1)) + " of thread " +
         std::to_string(tag >> kSequenceBits);
}

void write_cell(std::span<std::byte> cell, std::uint64_t cell_number, Tag tag) {
  std::uint64_t key = mix(cell_number);
  for (std::size_t done = 0; done + sizeof tag <= cell.size(); done += sizeof tag) {
    const std::uint64_t word = tag ^ key;
    std::memcpy(cell.data() + done, &word, sizeof word);
    key = mix(key);
  }
}

std::optional<Tag> read_cell(std::span<const std::byte> cell, std::uint64_t cell_number) {
  std::uint64_t key = mix(cell_number);
  std::optional<Tag> tag;
  for (std::size_t done = 0; done + sizeof(Tag) <= cell.size(); done += sizeof(Tag)) {
    std::uint64_t word = 0;
    std::memcpy(&word, cell.data() + done, sizeof word);
    if (tag && *tag != (word ^ key)) {
      return std::nullopt;
    }
    tag = word ^ key;
    key = mix(key);
  }
  return tag;
}

std::optional<std::string> judge(Tag initial, std::span<const Event> events) {
  Zones zones;
  if (auto problem = collect(initial, events, zones)) {
    return problem;
  }
  std::vector<Zone> fixed;
  for (const auto& [tag, zone] : zones) {
    if (zone.is_fixed()) {
      fixed.push_back(zone);
    }
  }
  std::sort(fixed.begin(), fixed.end(),
            [](const Zone& one, const Zone& other) { return one.first_end < other.first_end; });
  for (std::size_t index = 1; index < fixed.size(); ++index) {
    if (fixed[index].first_end < fixed[index - 1].last_begin) {
      return both(fixed[index - 1], fixed[index]);
    }
  }
  for (const auto& [tag, zone] : zones) {
    if (zone.is_fixed()) {
      continue;
    }
    // The last fixed zone that begins before this one does is the only one that can hold it.
    const auto after = std::upper_bound(
        fixed.begin(), fixed.end(), zone.last_begin,
        [](std::uint64_t moment, const Zone& other) { return moment < other.first_end; });
    if (after != fixed.begin() && zone.first_end < std::prev(after)->last_begin) {
      return both(*std::prev(after), zone);
    }
  }
  return std::nullopt;
}

}  // namespace cryptimg::model
