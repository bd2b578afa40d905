// SPDX-License-Identifier: GPL-3.0-or-later
//
// The parts of EncryptedImage that touch no request's bytes: flushing, keys, tunables, counters.
#include <algorithm>
#include <bit>
#include <utility>

#include "core/encrypted_image.h"
#include "core/secret.h"

namespace cryptimg {
namespace {

// More than libraries use to set a key.
constexpr std::size_t kKeyStackBytes = std::size_t{64} << 10;
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

Status EncryptedImage::take_key(const CipherEngine& engine, const Secret& key) {
  const auto open = [&]() -> Status {
    for (unsigned worker = 0; worker < worker_count_; ++worker) {
      CRYPTIMG_ASSIGN_OR_RETURN(auto session, engine.new_session(spec_, key));
      worker_sessions_.push_back(std::move(session));
    }
    if (reads_ahead_) {
      CRYPTIMG_ASSIGN_OR_RETURN(ahead_session_, engine.new_session(spec_, key));
    }
    return caller_sessions_.open(engine, spec_, key, max_callers_);
  };
  Status opened = open();
  // What the engine's library may have left there of the key.
  wipe_stack(kKeyStackBytes);
  if (opened) {
    has_keys_.store(true);
  } else {
    close_sessions();
  }
  return opened;
}

Status EncryptedImage::drop_keys(std::chrono::milliseconds patience) noexcept {
  if (read_ahead_ != nullptr && !read_ahead_->clear(patience)) {
    return fail(Errc::busy, "a read from the container is stuck");
  }
  has_keys_.store(false);
  close_sessions();
  return {};
}

void EncryptedImage::close_sessions() noexcept {
  worker_sessions_.clear();
  ahead_session_.reset();
  caller_sessions_.close();
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
  now.fetched = counters_.fetched.load(kRelaxed);
  now.merged = counters_.merged.load(kRelaxed);
  for (std::size_t size = 0; size < kExtentSizes; ++size) {
    now.extents[size] = counters_.extents[size].load(kRelaxed);
  }
  now.partial_sector_writes = counters_.partial_sector_writes.load(kRelaxed);
  now.chunks = counters_.chunks.load(kRelaxed);
  now.chunks_by_workers = counters_.chunks_by_workers.load(kRelaxed);
  now.contended_ranges = range_lock_.contended();
  now.contended_sessions = caller_sessions_.contended();
  now.read_errors = counters_.read_errors.load(kRelaxed);
  now.write_errors = counters_.write_errors.load(kRelaxed);
  now.flush_errors = flusher_.failures();
  return now;
}

bool EncryptedImage::fetch_ahead(const ByteExtent& range) noexcept {
  const ByteExtent bytes = cover(range.offset_bytes, range.length_bytes);
  const bool is_cold = device_->fetch_ahead(bytes.offset_bytes, bytes.length_bytes);
  counters_.fetched.fetch_add(is_cold ? 1 : 0, kRelaxed);
  return is_cold;
}

void EncryptedImage::count_extent(const IoRequest& request, std::uint64_t size_bytes) noexcept {
  const auto bits = static_cast<std::size_t>(std::bit_width((size_bytes - 1) / kIvUnitBytes));
  counters_.extents[std::min(bits, kExtentSizes - 1)].fetch_add(1, kRelaxed);
  if (request.merged > 1) {
    counters_.merged.fetch_add(request.merged, kRelaxed);
  }
}

}  // namespace cryptimg
