// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/reliability/power_cut.h"

#include <algorithm>
#include <cstring>

namespace cryptimg::test {

PowerCut::PowerCut(Bytes before, const DeviceLog& log, std::uint32_t sector_size_bytes,
                   std::uint32_t unit_bytes)
    : before_(before),
      log_(log),
      sector_size_bytes_(sector_size_bytes),
      unit_bytes_(unit_bytes),
      writes_of_unit_(before.size() / unit_bytes) {
  for (std::uint32_t index = 0; index < log.writes.size(); ++index) {
    const DeviceLog::Write& write = log.writes[index];
    const std::uint64_t end = (write.offset_bytes + write.bytes.size()) / unit_bytes;
    for (std::uint64_t unit = write.offset_bytes / unit_bytes; unit < end; ++unit) {
      writes_of_unit_[unit].push_back(index);
    }
  }
}

void PowerCut::restore(std::uint64_t cut, Survival survival, model::Random& random,
                       std::vector<std::byte>& disk) const {
  std::uint64_t covered = 0;  // what ended before this tick is flushed
  for (const DeviceLog::Flush& flush : log_.flushes) {
    if (flush.ended != 0 && flush.ended <= cut) {
      covered = std::max(covered, flush.begun);
    }
  }
  const std::uint64_t choice = random.next();
  disk.assign(before_.begin(), before_.end());
  for (std::uint64_t unit = 0; unit < writes_of_unit_.size(); ++unit) {
    const DeviceLog::Write* last = nullptr;
    std::vector<const DeviceLog::Write*> loose;
    std::vector<std::uint32_t> indices;
    for (const std::uint32_t index : writes_of_unit_[unit]) {
      const DeviceLog::Write& write = log_.writes[index];
      if (write.begun > cut) {
        break;
      }
      if (write.ended != 0 && write.ended < covered) {
        last = &write;
      } else {
        loose.push_back(&write);
        indices.push_back(index);
      }
    }
    const std::uint64_t sector = unit * unit_bytes_ / sector_size_bytes_;
    std::uint64_t survivors = 0;  // of the loose ones, in order
    switch (survival) {
      case Survival::nothing:
        break;
      case Survival::everything:
        survivors = loose.size();
        break;
      case Survival::some_writes:
        for (std::uint64_t i = 0; i < loose.size(); ++i) {
          survivors = model::mix(choice ^ indices[i]) % 2 == 0 ? i + 1 : survivors;
        }
        break;
      case Survival::to_sectors:
        // Every write is of whole sectors, so that all units of a sector choose from the same.
        survivors = model::mix(choice ^ sector) % (loose.size() + 1);
        break;
      case Survival::to_units:
        survivors = model::mix(choice ^ unit) % (loose.size() + 1);
        break;
    }
    if (survivors > 0) {
      last = loose[survivors - 1];
    }
    if (last != nullptr) {
      const std::uint64_t offset = unit * unit_bytes_;
      std::memcpy(disk.data() + offset, last->bytes.data() + (offset - last->offset_bytes),
                  unit_bytes_);
    }
  }
}

}  // namespace cryptimg::test
