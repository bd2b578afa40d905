// SPDX-License-Identifier: GPL-3.0-or-later
//
// What can be done to an image, as values: made at random from a seed, printed one a line, and read
// back. A list of them is a trace; running it again does the same again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cryptimg::model {

enum class Kind : std::uint8_t {
  read,
  write,
  map_read,
  map_write,
  sync_map,     // msync
  flush,        // fsync
  flush_data,   // fdatasync
  zero,         // fallocate: ZERO_RANGE
  zero_keep,    // fallocate: ZERO_RANGE | KEEP_SIZE
  punch,        // fallocate: PUNCH_HOLE, which is refused
  allocate,     // fallocate: mode 0
  shrink,       // ftruncate to `length`, at most the size: without effect
  grow,         // ftruncate to `length`, more than the size: refused
  seek_data,    // lseek
  seek_hole,    // lseek
  seek_end,     // lseek
  forget,       // POSIX_FADV_DONTNEED
  reopen,       // every descriptor and the mapping
  truncate,     // open with O_TRUNC, without effect
  drop_caches,  // the whole machine's; root only
};

// Through which descriptor a read or write goes.
enum class Access : std::uint8_t { buffered, direct, sync, dsync };

struct Operation {
  std::uint32_t number = 0;  // its place in the trace as it was made; kept when others are removed
  Kind kind = Kind::read;
  Access access = Access::buffered;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t content = 0;  // writes: what fill() is given

  bool operator==(const Operation&) const = default;
};

using Trace = std::vector<Operation>;

[[nodiscard]] bool changes_bytes(Kind kind);

// "NUMBER KIND ACCESS OFFSET LENGTH CONTENT"
std::string to_text(const Operation& operation);
// None for what to_text() does not print.
std::optional<Operation> parse_operation(const std::string& line);

struct Plan {
  std::uint64_t seed = 0;
  std::uint32_t count = 0;
  // The operations stay in this part of the image (reads and writes may begin in it and go past the
  // image's end where the part reaches there). REQUIRES: at least 64 KiB, page aligned beginning.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t image_bytes = 0;
  bool drop_caches = false;
};

// The trace of a plan, always the same; it ends with reads of the whole part, direct and buffered.
Trace make_trace(const Plan& plan);
// Those reads: what shows that all is well with a part.
Trace final_reads(const Plan& plan);

}  // namespace cryptimg::model
