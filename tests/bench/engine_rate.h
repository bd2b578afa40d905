// SPDX-License-Identifier: GPL-3.0-or-later
//
// RateProbe: one engine at work on one extent, in memory, through the CipherSession interface as
// the data path uses it: in place, with sector numbers going up. Two more lines say what is
// possible: memcpy (the memory), and the cipher itself by OpenSSL with one IV for the whole extent
// (no sectors at all). A probe belongs to one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg::bench {

// What is measured. `line` is one of rate_lines().
struct RateCase {
  std::string line;
  CipherSpec spec;
  Direction direction = Direction::decrypt;
  std::size_t extent_bytes = 131072;
};

// "openssl", "vaes-avx512", "vaes-avx2", then "raw-cipher" and "memcpy".
const std::vector<std::string>& rate_lines();

class RateProbe {
 public:
  virtual ~RateProbe() = default;

  // unavailable or unsupported where this machine cannot: the CPU lacks the instructions, or
  // CRYPTIMG_CPU forbids them. REQUIRES: extent_bytes is a positive multiple of the sector size.
  // Not to be called while another thread reads the environment.
  static Result<std::unique_ptr<RateProbe>> open(const RateCase& what);

  // Ciphers (or copies) the extent once.
  virtual Status step() noexcept = 0;
  [[nodiscard]] virtual std::size_t extent_bytes() const = 0;
};

// What a second is: of the wall clock, or of this thread's time on a core. The latter leaves out
// what other processes took, but also what an engine waits for.
enum class RateClock : std::uint8_t { wall, thread };

// Bytes a second, stepping for at least `duration` after one step that does not count.
Result<double> measure_rate(RateProbe& probe, std::chrono::nanoseconds duration, RateClock clock);

}  // namespace cryptimg::bench
