// SPDX-License-Identifier: GPL-3.0-or-later
//
// PowerCut: what is on a disk after its power was cut, made from the log of a RecordingDevice. What
// had ended when a flush began that has ended too is there. Of every other write that had begun,
// any part may be there, in units that the disk writes atomically. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/model/random.h"
#include "tests/support/recording_device.h"

namespace cryptimg::test {

// Which of the writes that were not flushed have come through.
enum class Survival : std::uint8_t {
  nothing,
  everything,
  some_writes,  // each write whole or not at all, in any combination
  to_sectors,   // each encryption sector as after any of the writes to it
  to_units,     // each unit of the disk, by itself, as after any of the writes to it
};
inline constexpr unsigned kSurvivals = 5;

class PowerCut {
 public:
  static constexpr std::uint32_t kDiskUnitBytes = 512;

  // `before`: what was there at tick 0. Both must outlive this, and not change. REQUIRES: sizes and
  // writes are whole units, and a sector is some units.
  PowerCut(Bytes before, const DeviceLog& log, std::uint32_t sector_size_bytes,
           std::uint32_t unit_bytes = kDiskUnitBytes);

  // What is there when the power went at tick `cut`.
  void restore(std::uint64_t cut, Survival survival, model::Random& random,
               std::vector<std::byte>& disk) const;

 private:
  const Bytes before_;
  const DeviceLog& log_;
  const std::uint32_t sector_size_bytes_;
  const std::uint32_t unit_bytes_;
  std::vector<std::vector<std::uint32_t>> writes_of_unit_;  // indices of log_.writes, in order
};

}  // namespace cryptimg::test
