// SPDX-License-Identifier: GPL-3.0-or-later
//
// EngineCurve: how long an engine takes by the size of the extent, measured on this machine. The
// sizes are those that requests have; between them it is interpolated, since the time of an engine
// is about a fixed part and one for each byte. Value types, and a function that may be called from
// any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg {

inline constexpr std::array<std::size_t, 5> kCurveSizesBytes = {512, 4096, 16384, 65536, 131072};

class EngineCurve {
 public:
  struct Point {
    std::size_t size_bytes = 0;
    std::chrono::nanoseconds taken{0};
  };

  EngineCurve() = default;
  // REQUIRES: at least one point; sizes rise.
  explicit EngineCurve(std::vector<Point> points) : points_(std::move(points)) {}

  [[nodiscard]] const std::vector<Point>& points() const { return points_; }
  [[nodiscard]] bool empty() const { return points_.empty(); }
  // The time for one extent: on the line between two points; below the first point that point's;
  // above the last one in proportion to it. REQUIRES: there are points.
  [[nodiscard]] std::chrono::nanoseconds time_for(std::size_t size_bytes) const;
  [[nodiscard]] double bytes_per_second(std::size_t size_bytes) const;

 private:
  std::vector<Point> points_;
};

// A direction in which an engine with a driver leaves all to the CPU has no points: it is not the
// driver's rate that would be seen.
struct EngineCurves {
  EngineCurve decrypt;
  EngineCurve encrypt;
  [[nodiscard]] const EngineCurve& of(Direction direction) const {
    return direction == Direction::decrypt ? decrypt : encrypt;
  }
};

// A clock that only goes forward.
using CurveClock = std::function<std::chrono::nanoseconds()>;
std::chrono::nanoseconds steady_time();

// What measuring one engine may take, both directions together. It begins no other size after that;
// what it has not come to is taken to be as fast by the byte as the largest size it has come to.
inline constexpr std::chrono::milliseconds kCurveBudget{40};

// Measures a session of `engine` with a key made up here, in place, from the smallest size on, at
// each the best of a few transforms. Fails as the engine does.
Result<EngineCurves> measure_engine(const CipherEngine& engine, const CipherSpec& spec,
                                    const CurveClock& clock = steady_time);
// A key for measuring only: it is no secret.
Result<Secret> curve_key(const CipherSpec& spec);
// The best time of a few transforms of the extent in place, at least two; no other is begun after
// `limit`.
Result<std::chrono::nanoseconds> measure_transform(CipherSession& session, Direction direction,
                                                   MutableBytes extent, const CurveClock& clock,
                                                   std::chrono::nanoseconds limit);

}  // namespace cryptimg
