// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/reliability/write_history.h"

#include <algorithm>
#include <cstring>

namespace cryptimg::test {
namespace {

constexpr std::size_t kBlockBytes = 16;
constexpr std::uint64_t kUnitBytes = 512;

}  // namespace

PartHistory::PartHistory(std::uint64_t begin_bytes, Bytes content, std::uint32_t sector_size_bytes)
    : begin_bytes_(begin_bytes), current_(content.begin(), content.end()) {
  writes_.push_back({0, 0, 0});
  for (std::uint64_t at = begin_bytes; at < end_bytes();) {
    const std::uint64_t end =
        std::min(end_bytes(), round_down(at, sector_size_bytes) + sector_size_bytes);
    const Bytes bytes = current(at, end - at);
    slices_.push_back({at, {{0, {bytes.begin(), bytes.end()}}}});
    at = end;
  }
}

std::size_t PartHistory::begin_write(std::uint64_t offset_bytes, Bytes content,
                                     std::uint64_t tick) {
  writes_.push_back({tick, kNever, kNever});
  std::memcpy(current_.data() + (offset_bytes - begin_bytes_), content.data(), content.size());
  const std::uint64_t end = offset_bytes + content.size();
  for (Slice& slice : slices_) {
    const std::size_t size = slice.versions[0].bytes.size();
    if (slice.offset_bytes < end && offset_bytes < slice.offset_bytes + size) {
      const Bytes bytes = current(slice.offset_bytes, size);
      slice.versions.push_back({writes(), {bytes.begin(), bytes.end()}});
    }
  }
  return writes();
}

void PartHistory::end_write(std::size_t number, std::uint64_t tick) {
  writes_[number].ended = tick;
}

void PartHistory::promise(std::size_t number, std::uint64_t tick) {
  writes_[number].on_disk = std::min(writes_[number].on_disk, tick);
}

WriteHistory::WriteHistory(const CipherSpec& spec, Bytes content,
                           const std::vector<std::uint64_t>& part_ends)
    : spec_(spec) {
  std::uint64_t begin = 0;
  for (const std::uint64_t end : part_ends) {
    parts_.emplace_back(begin, content.subspan(begin, end - begin), spec.sector_size_bytes);
    begin = end;
  }
}

void WriteHistory::flushed(std::uint64_t called, std::uint64_t returned) {
  const std::lock_guard lock(mutex_);
  flushes_.push_back({called, returned});
}

void WriteHistory::close() {
  for (PartHistory& part : parts_) {
    for (PartHistory::Write& write : part.writes_) {
      for (const Flush& flush : flushes_) {
        if (write.ended < flush.called) {
          write.on_disk = std::min(write.on_disk, flush.returned);
        }
      }
    }
  }
}

WriteHistory::Range WriteHistory::possible(const PartHistory& part, const PartHistory::Slice& slice,
                                           std::uint64_t cut) {
  Range range;
  for (std::size_t version = 0; version < slice.versions.size(); ++version) {
    const PartHistory::Write& write = part.writes_[slice.versions[version].write];
    if (write.on_disk <= cut) {
      range.oldest = version;
    }
    if (write.begun <= cut) {
      range.newest = version;
    }
  }
  return range;
}

// Whether the image's bytes at a place of the slice are those of any of the versions.
bool WriteHistory::is_any(const PartHistory::Slice& slice, Range range, Bytes image,
                          std::size_t from, std::size_t size) const {
  const std::byte* const found = image.data() + slice.offset_bytes + from;
  for (std::size_t version = range.oldest; version <= range.newest; ++version) {
    if (std::memcmp(found, slice.versions[version].bytes.data() + from, size) == 0) {
      return true;
    }
  }
  return false;
}

WriteHistory::Verdict WriteHistory::judge(std::uint64_t cut, Bytes image, bool is_torn) const {
  Verdict verdict;
  std::vector<bool> is_settled(image.size() / spec_.sector_size_bytes, true);
  for (const PartHistory& part : parts_) {
    for (const PartHistory::Slice& slice : part.slices_) {
      const Range range = possible(part, slice, cut);
      if (range.oldest != range.newest) {
        is_settled[slice.offset_bytes / spec_.sector_size_bytes] = false;
      }
    }
  }
  for (const PartHistory& part : parts_) {
    for (const PartHistory::Slice& slice : part.slices_) {
      const std::uint64_t sector = slice.offset_bytes / spec_.sector_size_bytes;
      const std::size_t size = slice.versions[0].bytes.size();
      const Range range = possible(part, slice, cut);
      const bool in_blocks = is_torn && !is_settled[sector];
      for (std::size_t from = 0; from < size;) {
        const std::uint64_t at = slice.offset_bytes + from;
        const std::size_t length =
            in_blocks ? std::min(size - from, kBlockBytes - at % kBlockBytes) : size;
        const bool follows_a_unit =
            at % kUnitBytes < kBlockBytes && at % spec_.sector_size_bytes >= kUnitBytes;
        const bool may_be_anything =
            in_blocks && spec_.mode == CipherMode::aes_cbc && follows_a_unit;
        if (!may_be_anything && !is_any(slice, range, image, from, length)) {
          verdict.complaint = "at byte " + std::to_string(at) + ", " + std::to_string(length) +
                              " bytes in sector " + std::to_string(sector) +
                              ": none of the versions " + std::to_string(range.oldest) + " to " +
                              std::to_string(range.newest) + " of a part of it";
          return verdict;
        }
        from += length;
      }
      if (range.oldest == range.newest) {
        ++verdict.exact;
      } else if (!in_blocks) {
        verdict.old += is_any(slice, {range.newest, range.newest}, image, 0, size) ? 0U : 1U;
        verdict.fresh += is_any(slice, {range.oldest, range.oldest}, image, 0, size) ? 0U : 1U;
      }
    }
  }
  return verdict;
}

}  // namespace cryptimg::test
