// SPDX-License-Identifier: GPL-3.0-or-later
//
// Threads that read and write the same places of an image at once, by direct I/O, and the judgement
// of all they saw (history.h). Mixing direct and cached access of one place at one time is not
// judged: there the kernel promises nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cryptimg::model {

struct OverlapPlan {
  std::uint64_t seed = 0;
  unsigned threads = 4;
  std::uint32_t count = 0;       // operations of all threads together
  std::uint64_t cell_bytes = 0;  // the encryption sector, or a part of it; a multiple of 8
  std::optional<std::uint32_t> spoil_read;  // in this read of thread 1 one byte is changed
};

// None if all was right, else a sentence. What the image held at its beginning is overwritten. The
// order in which the threads meet is not repeatable; what each does is.
std::optional<std::string> run_overlap(const std::string& path, const OverlapPlan& plan);

}  // namespace cryptimg::model
