// SPDX-License-Identifier: GPL-3.0-or-later
//
// The parts of EncryptedImage that touch no request's bytes: flushing, tunables, counters.
#include <algorithm>
#include <bit>

#include "core/encrypted_image.h"

namespace cryptimg {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

Status EncryptedImage::flush() noexcept {
  return flusher_.flush();
}
Status EncryptedImage::flush_if_dirty() noexcept {
  return flusher_.flush_if_dirty();
}
Status EncryptedImage::flush_state() const noexcept {
  return flusher_.state();
}

bool EncryptedImage::stop_reading_ahead(std::chrono::milliseconds patience) noexcept {
  return read_ahead_ == nullptr || read_ahead_->stop(patience);
}

std::uint64_t EncryptedImage::write_sequence() const noexcept {
  return flusher_.write_sequence();
}

std::uint64_t EncryptedImage::flushed_sequence() const noexcept {
  return flusher_.flushed_sequence();
}

timespec EncryptedImage::modified_time() noexcept {
  return device_->modified_time();
}

std::uint32_t EncryptedImage::max_read_size_bytes() const noexcept {
  return max_read_size_bytes_.load(kRelaxed);
}

std::uint32_t EncryptedImage::max_write_size_bytes() const noexcept {
  return max_write_size_bytes_.load(kRelaxed);
}

std::uint32_t EncryptedImage::set_max_read_size(std::uint32_t bytes) noexcept {
  const std::uint32_t rounded = round_chunk(bytes);
  max_read_size_bytes_.store(rounded, kRelaxed);
  return rounded;
}

std::uint32_t EncryptedImage::set_max_write_size(std::uint32_t bytes) noexcept {
  const std::uint32_t rounded = round_chunk(bytes);
  max_write_size_bytes_.store(rounded, kRelaxed);
  return rounded;
}

// As dm-crypt rounds them.
std::uint32_t EncryptedImage::round_chunk(std::uint32_t bytes) const noexcept {
  const std::uint32_t wanted = bytes == 0 ? kDefaultMaxChunkBytes : bytes;
  return std::max(spec_.sector_size_bytes, wanted - wanted % spec_.sector_size_bytes);
}

unsigned EncryptedImage::workers() const noexcept {
  return workers_->size();
}
std::uint64_t EncryptedImage::in_flight() const noexcept {
  return in_flight_.load();
}

ImageCounters EncryptedImage::counters() const noexcept {
  ImageCounters now;
  now.reads = counters_.reads.load(kRelaxed);
  now.writes = counters_.writes.load(kRelaxed);
  now.read_bytes = counters_.read_bytes.load(kRelaxed);
  now.written_bytes = counters_.written_bytes.load(kRelaxed);
  now.flushes = flusher_.flushes();
  if (read_ahead_ != nullptr) {
    const ReadAhead::Counters ahead = read_ahead_->counters();
    now.ahead_bytes = ahead.hit_bytes;
    now.filled_bytes = ahead.filled_bytes;
  }
  now.mapped_bytes = counters_.mapped_bytes.load(kRelaxed);
  now.merged = counters_.merged.load(kRelaxed);
  for (std::size_t size = 0; size < kExtentSizes; ++size) {
    now.extents[size] = counters_.extents[size].load(kRelaxed);
  }
  now.partial_sector_writes = counters_.partial_sector_writes.load(kRelaxed);
  now.chunks = counters_.chunks.load(kRelaxed);
  now.chunks_by_workers = counters_.chunks_by_workers.load(kRelaxed);
  now.read_errors = counters_.read_errors.load(kRelaxed);
  now.write_errors = counters_.write_errors.load(kRelaxed);
  now.flush_errors = flusher_.failures();
  return now;
}

void EncryptedImage::count_extent(const IoRequest& request, std::uint64_t size_bytes) noexcept {
  const auto bits = static_cast<std::size_t>(std::bit_width((size_bytes - 1) / kIvUnitBytes));
  counters_.extents[std::min(bits, kExtentSizes - 1)].fetch_add(1, kRelaxed);
  if (request.merged > 1) {
    counters_.merged.fetch_add(request.merged, kRelaxed);
  }
}

}  // namespace cryptimg
