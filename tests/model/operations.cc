// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/operations.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "tests/model/random.h"

namespace cryptimg::model {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHotBytes = 65536;
constexpr std::uint64_t kBeyondBytes = 1 << 20;

struct KindRow {
  Kind kind;
  std::string_view name;
  unsigned weight;  // of 1000
};
constexpr std::array<KindRow, 20> kKinds = {{
    {Kind::read, "read", 330},
    {Kind::write, "write", 330},
    {Kind::map_read, "map-read", 80},
    {Kind::map_write, "map-write", 80},
    {Kind::sync_map, "sync-map", 12},
    {Kind::flush, "fsync", 8},
    {Kind::flush_data, "fdatasync", 8},
    {Kind::zero, "zero", 25},
    {Kind::zero_keep, "zero-keep", 15},
    {Kind::punch, "punch", 10},
    {Kind::allocate, "allocate", 6},
    {Kind::shrink, "shrink", 12},
    {Kind::grow, "grow", 6},
    {Kind::seek_data, "seek-data", 10},
    {Kind::seek_hole, "seek-hole", 10},
    {Kind::seek_end, "seek-end", 4},
    {Kind::forget, "forget", 40},
    {Kind::reopen, "reopen", 8},
    {Kind::truncate, "truncate", 5},
    {Kind::drop_caches, "drop-caches", 1},
}};
constexpr std::array<std::string_view, 4> kAccesses = {"buffered", "direct", "sync", "dsync"};

Kind random_kind(Random& random) {
  unsigned total = 0;
  for (const KindRow& row : kKinds) {
    total += row.weight;
  }
  std::uint64_t place = random.below(total);
  for (const KindRow& row : kKinds) {
    if (place < row.weight) {
      return row.kind;
    }
    place -= row.weight;
  }
  return Kind::read;
}

Access random_access(Random& random, Kind kind) {
  const std::uint64_t place = random.below(100);
  if (kind == Kind::write && place >= 97) {
    return random.percent(50) ? Access::sync : Access::dsync;
  }
  return place < 50 ? Access::buffered : Access::direct;
}

std::uint64_t random_length(Random& random) {
  const std::uint64_t place = random.below(1000);
  if (place < 500) {
    return random.between(1, 700);
  }
  if (place < 800) {
    return random.between(1, 16384);
  }
  if (place < 980) {
    return random.between(1, 131072);
  }
  return random.between(1, place < 997 ? 524288 : 2621440);
}

// Half of all ranges begin and end at sectors or pages, the others anywhere.
void place(Operation& operation, const Plan& plan, Random& random) {
  constexpr std::array<std::uint64_t, 6> kGrains = {1, 1, 1, 512, 512, kPageBytes};
  const std::uint64_t grain = kGrains[random.below(kGrains.size())];
  const std::uint64_t part = plan.end - plan.begin;
  // A third of them meet where others are.
  const std::uint64_t within = random.percent(33) ? std::min(kHotBytes, part) : part;
  std::uint64_t offset = random.below(within) / grain * grain;
  std::uint64_t length = (random_length(random) + grain - 1) / grain * grain;
  if (random.percent(4)) {
    offset = part - std::min(part, random.between(1, kPageBytes) / grain * grain);
  }
  const bool may_pass = operation.kind == Kind::read || operation.kind == Kind::write ||
                        operation.kind == Kind::zero || operation.kind == Kind::zero_keep;
  const bool is_last = plan.end == plan.image_bytes;
  if (may_pass && is_last && random.percent(1)) {
    offset = part + random.below(kBeyondBytes) / grain * grain;
  }
  if (!(may_pass && is_last && random.percent(20))) {
    if (offset >= part) {
      offset = part - 1;
    }
    length = std::min(length, part - offset);
  }
  operation.offset = plan.begin + offset;
  operation.length = length;
}

}  // namespace

bool changes_bytes(Kind kind) {
  return kind == Kind::write || kind == Kind::map_write || kind == Kind::zero ||
         kind == Kind::zero_keep;
}

std::string to_text(const Operation& operation) {
  const auto* const row = std::find_if(kKinds.begin(), kKinds.end(), [&](const KindRow& candidate) {
    return candidate.kind == operation.kind;
  });
  std::ostringstream text;
  text << operation.number << ' ' << row->name << ' '
       << kAccesses[static_cast<std::size_t>(operation.access)] << ' ' << operation.offset << ' '
       << operation.length << ' ' << operation.content;
  return text.str();
}

std::optional<Operation> parse_operation(const std::string& line) {
  std::istringstream text(line);
  Operation operation;
  std::string kind;
  std::string access;
  std::string rest;
  if (!(text >> operation.number >> kind >> access >> operation.offset >> operation.length >>
        operation.content) ||
      text >> rest) {
    return std::nullopt;
  }
  const auto* const row = std::find_if(kKinds.begin(), kKinds.end(), [&](const KindRow& candidate) {
    return candidate.name == kind;
  });
  const auto* const name = std::find(kAccesses.begin(), kAccesses.end(), access);
  if (row == kKinds.end() || name == kAccesses.end()) {
    return std::nullopt;
  }
  operation.kind = row->kind;
  operation.access = static_cast<Access>(name - kAccesses.begin());
  return operation;
}

Trace make_trace(const Plan& plan) {
  Random random(plan.seed);
  Trace trace;
  trace.reserve(plan.count);
  while (trace.size() < plan.count) {
    Operation operation;
    operation.number = static_cast<std::uint32_t>(trace.size());
    operation.kind = random_kind(random);
    operation.access = random_access(random, operation.kind);
    operation.content = random.next();
    place(operation, plan, random);
    if (operation.kind == Kind::drop_caches && !plan.drop_caches) {
      operation.kind = Kind::forget;
    }
    if (operation.kind == Kind::shrink) {
      operation.length = random.below(plan.image_bytes + 1);
    } else if (operation.kind == Kind::grow) {
      operation.length = plan.image_bytes + random.between(1, kBeyondBytes);
    }
    trace.push_back(operation);
  }
  const Trace reads = final_reads(plan);
  trace.insert(trace.end(), reads.begin(), reads.end());
  return trace;
}

Trace final_reads(const Plan& plan) {
  Trace trace(3);
  for (Operation& operation : trace) {
    operation.number = plan.count;
    operation.offset = plan.begin;
    operation.length = plan.end - plan.begin;
  }
  trace[1].kind = Kind::map_read;
  trace[2].access = Access::direct;
  return trace;
}

}  // namespace cryptimg::model
