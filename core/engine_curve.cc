// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/engine_curve.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace cryptimg {
namespace {

using std::chrono::nanoseconds;

constexpr unsigned kMaxRuns = 4;

// Both halves of an XTS key must differ, and the content must not be all zero.
void fill(MutableBytes bytes) {
  std::uint32_t value = 1;
  for (std::byte& byte : bytes) {
    value = value * 1103515245U + 12345U;
    byte = static_cast<std::byte>(value >> 16U);
  }
}

Result<EngineCurve> measure_direction(CipherSession& session, Direction direction,
                                      MutableBytes memory, std::uint32_t sector_bytes,
                                      const CurveClock& clock, nanoseconds budget) {
  const nanoseconds begin = clock();
  const nanoseconds slice = budget / kCurveSizesBytes.size();
  std::vector<EngineCurve::Point> points;
  for (const std::size_t size_bytes : kCurveSizesBytes) {
    if (size_bytes < sector_bytes) {
      continue;
    }
    if (!points.empty() && clock() - begin >= budget) {
      break;
    }
    CRYPTIMG_ASSIGN_OR_RETURN(
        const nanoseconds taken,
        measure_transform(session, direction, memory.first(size_bytes), clock, slice));
    // Cut into smaller extents it would take no longer: what says otherwise was disturbed.
    const nanoseconds most =
        points.empty() ? taken
                       : points.back().taken *
                             static_cast<std::int64_t>(size_bytes / points.back().size_bytes);
    points.push_back({size_bytes, std::min(taken, most)});
  }
  return EngineCurve(std::move(points));
}

}  // namespace

nanoseconds EngineCurve::time_for(std::size_t size_bytes) const {
  if (size_bytes <= points_.front().size_bytes) {
    return points_.front().taken;
  }
  const auto above = std::find_if(points_.begin(), points_.end(), [&](const Point& point) {
    return point.size_bytes >= size_bytes;
  });
  if (above == points_.end()) {
    const Point& last = points_.back();
    const double part = static_cast<double>(size_bytes) / static_cast<double>(last.size_bytes);
    return nanoseconds(static_cast<std::int64_t>(static_cast<double>(last.taken.count()) * part));
  }
  const Point& low = *(above - 1);
  const double part = static_cast<double>(size_bytes - low.size_bytes) /
                      static_cast<double>(above->size_bytes - low.size_bytes);
  const auto more = static_cast<double>((above->taken - low.taken).count()) * part;
  return low.taken + nanoseconds(static_cast<std::int64_t>(more));
}

double EngineCurve::bytes_per_second(std::size_t size_bytes) const {
  const auto taken = std::chrono::duration<double>(time_for(size_bytes));
  return taken.count() > 0 ? static_cast<double>(size_bytes) / taken.count() : 0;
}

nanoseconds steady_time() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

Result<Secret> curve_key(const CipherSpec& spec) {
  CRYPTIMG_ASSIGN_OR_RETURN(Secret key, Secret::allocate(spec.key_size_bytes));
  fill(key.mutable_bytes());
  return key;
}

Result<nanoseconds> measure_transform(CipherSession& session, Direction direction,
                                      MutableBytes extent, const CurveClock& clock,
                                      nanoseconds limit) {
  const nanoseconds begin = clock();
  nanoseconds before = begin;
  nanoseconds best = nanoseconds::max();
  for (unsigned run = 0; run < kMaxRuns; ++run) {
    CRYPTIMG_RETURN_IF_ERROR(session.transform(direction, 0, extent, extent));
    const nanoseconds after = clock();
    best = std::min(best, after - before);
    // The first run may have found things cold: it alone says little.
    if (run > 0 && after - begin >= limit) {
      break;
    }
    before = after;
  }
  return best;
}

Result<EngineCurves> measure_engine(const CipherEngine& engine, const CipherSpec& spec,
                                    const CurveClock& clock) {
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, curve_key(spec));
  CRYPTIMG_ASSIGN_OR_RETURN(const auto session, engine.new_session(spec, key));
  std::vector<std::byte> memory(kCurveSizesBytes.back());
  fill(memory);
  const auto measured = [&](Direction direction) -> Result<EngineCurve> {
    const std::uint64_t before = engine.driver_counters().bytes;
    CRYPTIMG_ASSIGN_OR_RETURN(EngineCurve curve,
                              measure_direction(*session, direction, memory, spec.sector_size_bytes,
                                                clock, kCurveBudget / 2));
    const bool is_idle = engine.has_driver() && engine.driver_counters().bytes == before;
    return is_idle ? EngineCurve() : std::move(curve);
  };
  EngineCurves curves;
  CRYPTIMG_ASSIGN_OR_RETURN(curves.decrypt, measured(Direction::decrypt));
  CRYPTIMG_ASSIGN_OR_RETURN(curves.encrypt, measured(Direction::encrypt));
  return curves;
}

}  // namespace cryptimg
