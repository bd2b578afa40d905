// SPDX-License-Identifier: GPL-3.0-or-later
//
// Of ReadAhead: which reads make a stream, and what of it is filled next.
#include <algorithm>

#include "core/read_ahead.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kFirstWindowBytes = 256U << 10;
// How far from where a stream was expected a read may be, and still be of it: several of one client
// are under way at once, and do not come in order.
constexpr std::uint64_t kSlackBytes = 128U << 10;

}  // namespace

// A stream is hungry when its window has become half empty.
ReadAhead::Found ReadAhead::find_stream(std::uint64_t offset_bytes,
                                        std::uint64_t end_bytes) noexcept {
  const auto continues = [&](const Stream& stream) {
    return stream.in_use && offset_bytes <= stream.next_bytes + kSlackBytes &&
           offset_bytes + kSlackBytes >= stream.next_bytes;
  };
  ++tick_;
  if (const auto own = std::find_if(streams_.begin(), streams_.end(), continues);
      own != streams_.end()) {
    own->used_at = tick_;
    if (end_bytes > own->next_bytes) {
      own->next_bytes = end_bytes;
      own->window_bytes = std::min(own->window_bytes * 2, window_limit());
      own->next_chunk = std::max(own->next_chunk, end_bytes / kChunkBytes);
    }
    if (own->next_bytes >= image_bytes_) {
      own->in_use = false;  // it is over, and its part of the ring is for others
      return Found::stream;
    }
    const std::uint64_t missing =
        target_chunk(*own) - std::min(own->next_chunk, target_chunk(*own));
    const bool is_hungry = missing > 0 && missing * kChunkBytes * 2 >= own->window_bytes;
    return is_hungry ? Found::hungry_stream : Found::stream;
  }
  const auto known = std::find_if(candidates_.begin(), candidates_.end(), continues);
  if (known == candidates_.end()) {
    candidates_[next_candidate_++ % kCandidates] = {end_bytes, 0, 0, tick_, true};
    return Found::nothing;
  }
  // The one that was silent longest makes room.
  const auto oldest =
      std::min_element(streams_.begin(), streams_.end(), [](const Stream& a, const Stream& b) {
        return (a.in_use ? a.used_at + 1 : 0) < (b.in_use ? b.used_at + 1 : 0);
      });
  const std::uint64_t next_bytes = std::max(known->next_bytes, end_bytes);
  *oldest = {next_bytes, next_bytes / kChunkBytes, kFirstWindowBytes, tick_, true};
  known->in_use = false;
  return Found::hungry_stream;
}

// The ring is shared by the streams; a quarter of it is for what is being replied and filled.
std::uint64_t ReadAhead::window_limit() const noexcept {
  const auto streams = static_cast<std::uint64_t>(
      std::count_if(streams_.begin(), streams_.end(), [](const Stream& s) { return s.in_use; }));
  const std::uint64_t usable = memory_.bytes().size() * 3 / 4;
  return std::max<std::uint64_t>(usable / std::max<std::uint64_t>(streams, 1), kChunkBytes);
}

std::uint64_t ReadAhead::target_chunk(const Stream& stream) const noexcept {
  const std::uint64_t end = std::min(stream.next_bytes + stream.window_bytes, image_bytes_);
  return (end + kChunkBytes - 1) / kChunkBytes;
}

bool ReadAhead::next_fill(std::uint64_t& chunk) noexcept {
  Stream* best = nullptr;
  std::uint64_t best_lead = 0;
  for (Stream& stream : streams_) {
    if (stream.in_use && stream.next_chunk < target_chunk(stream)) {
      const std::uint64_t lead =
          stream.next_chunk - std::min(stream.next_chunk, stream.next_bytes / kChunkBytes);
      if (best == nullptr || lead < best_lead) {
        best = &stream;
        best_lead = lead;
      }
    }
  }
  if (best == nullptr) {
    return false;
  }
  chunk = best->next_chunk++;
  return true;
}

bool ReadAhead::is_wanted(std::uint64_t chunk) const noexcept {
  return std::any_of(streams_.begin(), streams_.end(), [&](const Stream& stream) {
    return stream.in_use && chunk >= stream.next_bytes / kChunkBytes && chunk < stream.next_chunk;
  });
}

}  // namespace cryptimg
