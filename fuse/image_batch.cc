// SPDX-License-Identifier: GPL-3.0-or-later
//
// The requests that a session thread put aside, made into extents. What a thread found queued it
// serves alone and at once: with that many requests pending the other cores have work of their own.
// A single request goes the ordinary way, with the workers' help.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <fuse_lowlevel.h>
#include <sys/uio.h>

#include "core/coalesce.h"
#include "fuse/image_fs.h"
#include "fuse/image_io.h"
#include "fuse/session.h"

namespace cryptimg {
namespace {

constexpr std::size_t kMaxPending = 64;
// A batch longer than this keeps requests waiting that another thread could serve.
constexpr std::uint64_t kMaxBatchBytes = 256U << 10;
// Writes are copied out of the buffer that the next request arrives in.
constexpr std::size_t kMaxStagedBytes = 32U << 10;
constexpr std::size_t kMaxSectorBytes = 4096;
static_assert(kMaxBatchBytes + kMaxPending * 2 * kMaxSectorBytes <= kMaxIoBytes);

// What the calling thread has put aside.
struct Batch {
  std::array<PendingRead, kMaxPending> reads;
  std::array<PendingWrite, kMaxPending> writes;
  std::size_t read_count = 0;
  std::size_t write_count = 0;
  std::uint64_t bytes = 0;
  MutableBytes staging;  // a request buffer with the writes' payloads
  std::size_t staged_end = 0;

  [[nodiscard]] bool empty() const { return read_count + write_count == 0; }
  [[nodiscard]] bool has_room() const {
    return read_count + write_count < kMaxPending && bytes < kMaxBatchBytes;
  }
};

thread_local Batch batch;

void take_more_if_room() {
  if (batch.has_room()) {
    take_more();
  }
}

}  // namespace

bool ImageFs::put_aside(const PendingRead& read) {
  const bool is_alone = batch.empty() && read.range.length_bytes >= kMaxBatchBytes;
  if (!options_.coalesce || is_alone || !batch.has_room()) {
    return false;
  }
  batch.reads[batch.read_count++] = read;
  batch.bytes += read.range.length_bytes;
  take_more_if_room();
  return true;
}

bool ImageFs::put_aside(PendingWrite write, Bytes payload) {
  if (!options_.coalesce || payload.size() > kMaxStagedBytes || !batch.has_room()) {
    return false;
  }
  if (batch.staging.empty()) {
    batch.staging = pool_.acquire();
  }
  const std::uint32_t sector_size = image_.sector_size_bytes();
  const std::size_t head = write.range.offset_bytes % sector_size;
  if (batch.write_count == 0) {
    write.position = kPayloadOffset;
  } else {
    const PendingWrite& last = batch.writes[batch.write_count - 1];
    write.continues = last.range.end_bytes() == write.range.offset_bytes && head == 0 &&
                      last.durable == write.durable;
    write.position = batch.staged_end + (write.continues ? 0 : head);
  }
  std::memcpy(batch.staging.data() + write.position, payload.data(), write.range.length_bytes);
  batch.staged_end = write.position - head +
                     image_.cover(write.range.offset_bytes, write.range.length_bytes).length_bytes;
  batch.writes[batch.write_count++] = write;
  batch.bytes += write.range.length_bytes;
  take_more_if_room();
  return true;
}

void ImageFs::work_batch() {
  if (batch.empty()) {
    return;
  }
  if (batch.read_count == 1 && batch.write_count == 0) {
    batch.read_count = 0;
    start_read(batch.reads.front());
  } else if (batch.write_count == 1 && batch.read_count == 0) {
    batch.write_count = 0;
    start_write(batch.writes.front(), std::exchange(batch.staging, {}));
  } else {
    work_writes({batch.writes.data(), batch.write_count});
    if (!batch.staging.empty()) {
      pool_.release(std::exchange(batch.staging, {}));
    }
    work_reads({batch.reads.data(), batch.read_count});
    batch.read_count = 0;
    batch.write_count = 0;
  }
  batch.bytes = 0;
  batch.staged_end = 0;
}

Status ImageFs::transfer(IoRequest::Kind kind, const ByteExtent& range, MutableBytes buffer,
                         std::size_t merged, bool durable) {
  Status result;
  IoRequest request;
  request.kind = kind;
  request.offset_bytes = range.offset_bytes;
  request.length_bytes = range.length_bytes;
  request.buffer = buffer;
  request.durable = durable;
  request.alone = true;
  request.merged = static_cast<std::uint32_t>(merged);
  request.context = &result;
  request.completion = [](IoRequest& done, Status status) noexcept {
    *static_cast<Status*>(done.context) = std::move(status);
  };
  image_.submit(request);
  return result;
}

// In the order they came, as far as they lie behind one another.
void ImageFs::work_writes(std::span<const PendingWrite> writes) {
  while (!writes.empty()) {
    ByteExtent range = writes.front().range;
    std::size_t count = 1;
    while (count < writes.size() && writes[count].continues &&
           range.length_bytes + writes[count].range.length_bytes <= options_.max_extent_bytes) {
      range.length_bytes += writes[count].range.length_bytes;
      ++count;
    }
    const ByteExtent extent = image_.cover(range.offset_bytes, range.length_bytes);
    const std::size_t head = range.offset_bytes - extent.offset_bytes;
    const Status status =
        transfer(IoRequest::Kind::write, range,
                 batch.staging.subspan(writes.front().position - head, extent.length_bytes), count,
                 writes.front().durable);
    for (const PendingWrite& write : writes.first(count)) {
      answer_write(write, status);
    }
    writes = writes.subspan(count);
  }
}

void ImageFs::work_reads(std::span<PendingRead> reads) {
  if (reads.empty()) {
    return;
  }
  std::sort(reads.begin(), reads.end(), [](const PendingRead& a, const PendingRead& b) {
    return a.range.offset_bytes < b.range.offset_bytes;
  });
  std::array<ByteExtent, kMaxPending> ranges;
  std::transform(reads.begin(), reads.end(), ranges.begin(),
                 [](const PendingRead& read) { return read.range; });
  std::span<const ByteExtent> sorted(ranges.data(), reads.size());
  fetch_cold(sorted);
  const MutableBytes buffer = pool_.acquire();
  while (!sorted.empty()) {
    const Run run = next_run(sorted, options_.max_extent_bytes, image_.sector_size_bytes());
    work_run(run.range, reads.first(run.count), buffer);
    sorted = sorted.subspan(run.count);
    reads = reads.subspan(run.count);
  }
  pool_.release(buffer);
}

// A batch is read extent by extent; of a disk they are asked for all at once. In memory that is a
// call too many for each, so after a batch that was, only one in sixteen is asked about.
void ImageFs::fetch_cold(std::span<const ByteExtent> ranges) {
  constexpr unsigned kAskEvery = 16;
  thread_local bool was_cold = true;
  thread_local unsigned turn = 0;
  if (ranges.size() < 2 || (!was_cold && ++turn % kAskEvery != 0)) {
    return;
  }
  was_cold = false;
  while (!ranges.empty()) {
    const Run run = next_run(ranges, options_.max_extent_bytes, image_.sector_size_bytes());
    was_cold = image_.fetch_ahead(run.range) || was_cold;
    ranges = ranges.subspan(run.count);
  }
}

void ImageFs::work_run(const ByteExtent& range, std::span<const PendingRead> reads,
                       MutableBytes buffer) {
  const ByteExtent extent = image_.cover(range.offset_bytes, range.length_bytes);
  const MutableBytes plain = buffer.first(extent.length_bytes);
  const Status status = transfer(IoRequest::Kind::read, range, plain, reads.size(), false);
  if (!status && reads.size() > 1) {
    // One bad sector must not fail those who did not ask for it.
    for (const PendingRead& read : reads) {
      work_run(read.range, {&read, 1}, buffer);
    }
    return;
  }
  for (const PendingRead& read : reads) {
    const std::size_t skipped = read.range.offset_bytes - extent.offset_bytes;
    const iovec part = {plain.data() + skipped, read.range.length_bytes};
    answer_read(read, status, {&part, 1});
  }
}

}  // namespace cryptimg
