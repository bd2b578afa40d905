// SPDX-License-Identifier: GPL-3.0-or-later
//
// The way of a request. submit() checks it, takes its range, fills in the partial sectors of a
// write, and cuts the extent into chunks. A chunk is taken by adding one to next_chunk_, by the
// calling thread and by the workers that joined; the thread that leaves last (WorkerPool says
// which) finishes the request alone, so everything in it but the two atomics is touched by one
// thread at a time, or read only. After that thread has called the completion, and after another
// has left, the request may no longer exist.
//
// Order of waiting: a range, then a session, then nothing. Who holds a session never waits for a
// range, so sessions always come free.
#include "core/encrypted_image.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "core/secret.h"

namespace cryptimg {
namespace {

constexpr std::uint32_t kMaxSectorBytes = 4096;
// A view takes two system calls, and its pages have to be found: less than this is read sooner.
constexpr std::size_t kMinViewBytes = 16U << 10;
// Of an extent that is shared.
constexpr std::uint64_t kPartsPerThread = 4;
constexpr std::uint64_t kMinSharedChunkBytes = 64U << 10;
constexpr auto kRelaxed = std::memory_order_relaxed;

// A sector's plaintext on the stack, wiped when it goes.
class SectorScratch {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the device fills what is used of it
  explicit SectorScratch(std::uint32_t sector_size_bytes) : size_bytes_(sector_size_bytes) {}
  ~SectorScratch() { wipe(memory_); }
  SectorScratch(const SectorScratch&) = delete;
  SectorScratch& operator=(const SectorScratch&) = delete;
  [[nodiscard]] MutableBytes bytes() { return MutableBytes(memory_).first(size_bytes_); }

 private:
  alignas(64) std::array<std::byte, kMaxSectorBytes> memory_;
  std::uint32_t size_bytes_;
};

bool is_sector_size(std::uint32_t bytes) {
  return bytes >= kIvUnitBytes && bytes <= kMaxSectorBytes && std::has_single_bit(bytes);
}

}  // namespace

Result<std::unique_ptr<EncryptedImage>> EncryptedImage::create(
    std::unique_ptr<BlockDevice> device, const CipherEngine& engine, const CipherSpec& spec,
    const Secret& key, const ImageOptions& options, unsigned max_callers) {
  if (!is_sector_size(spec.sector_size_bytes) || options.size_bytes == 0 ||
      options.size_bytes % spec.sector_size_bytes != 0) {
    return fail(Errc::invalid_argument, "an image of " + std::to_string(options.size_bytes) +
                                            " bytes is not made of whole sectors of " +
                                            std::to_string(spec.sector_size_bytes) + " bytes");
  }
  if (max_callers == 0) {
    return fail(Errc::invalid_argument, "an image needs at least one calling thread");
  }
  const EngineLimits limits = engine.limits();
  if (limits.alignment_bytes > 1 || limits.max_bytes < spec.sector_size_bytes) {
    return fail(Errc::unsupported,
                "the engine " + std::string(engine.name()) +
                    " cannot cipher whole sectors at any address, choose another");
  }
  std::unique_ptr<EncryptedImage> image(
      new EncryptedImage(std::move(device), spec, options, limits.max_bytes, max_callers));
  CRYPTIMG_RETURN_IF_ERROR(image->take_key(engine, key));
  if (image->reads_ahead_) {
    CRYPTIMG_ASSIGN_OR_RETURN(image->read_ahead_,
                              ReadAhead::create(options.readahead_bytes, options.size_bytes, *image,
                                                options.readahead_priority));
  }
  CRYPTIMG_ASSIGN_OR_RETURN(image->workers_, WorkerPool::create(options.workers, *image));
  return image;
}

EncryptedImage::EncryptedImage(std::unique_ptr<BlockDevice> device, const CipherSpec& spec,
                               const ImageOptions& options, std::uint64_t engine_max_bytes,
                               unsigned max_callers)
    : spec_(spec),
      size_bytes_(options.size_bytes),
      read_only_(options.read_only),
      engine_max_bytes_(round_down(engine_max_bytes, spec.sector_size_bytes)),
      always_view_(options.always_view),
      min_shared_read_bytes_(options.min_shared_read_bytes),
      min_shared_write_bytes_(options.min_shared_write_bytes),
      worker_count_(options.workers),
      max_callers_(max_callers),
      reads_ahead_(options.readahead_bytes > 0),
      device_(std::move(device)),
      flusher_(*device_),
      max_read_size_bytes_(round_chunk(options.max_read_size_bytes)),
      max_write_size_bytes_(round_chunk(options.max_write_size_bytes)) {}

EncryptedImage::~EncryptedImage() {
  // Polled, because taking itself off in_flight_ must be the last that a request's thread does to
  // this object: it could not wake us after that.
  while (in_flight_.load() != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ByteExtent EncryptedImage::cover(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
  return to_bytes(cryptimg::cover(offset_bytes, length_bytes, spec_.sector_size_bytes),
                  spec_.sector_size_bytes);
}

void EncryptedImage::submit(IoRequest& request) noexcept {
  in_flight_.fetch_add(1);
  request.in_stream_ = false;
  request.ahead.count = 0;
  request.ahead.bytes = 0;
  if (Status valid = check(request); !valid) {
    complete(request, std::move(valid));
    return;
  }
  const bool is_write = request.kind == IoRequest::Kind::write;
  count_extent(request, request.buffer.size());
  if (!is_write && read_ahead_ != nullptr && serve_ahead(request)) {
    complete(request, {});
    return;
  }
  const ByteExtent bytes =
      cover(request.offset_bytes + request.ahead.bytes, request.length_bytes - request.ahead.bytes);
  request.extent_ = {bytes.offset_bytes / spec_.sector_size_bytes,
                     bytes.length_bytes / spec_.sector_size_bytes};
  request.sectors_ = request.buffer.last(bytes.length_bytes);
  const std::uint64_t helpers = plan_chunks(request, bytes.length_bytes);
  request.next_chunk_.store(0, kRelaxed);
  request.failed_.store(false, kRelaxed);
  request.hold_ =
      range_lock_.acquire(bytes.offset_bytes, bytes.end_bytes(),
                          is_write ? RangeLock::Mode::exclusive : RangeLock::Mode::shared);

  SessionPool::Lease session = caller_sessions_.acquire();
  if (is_write) {
    if (read_ahead_ != nullptr) {
      read_ahead_->begin_write(bytes);
    }
    if (Status filled = fill_partial_sectors(request, *session); !filled) {
      record_failure(request, std::move(filled.error()));
    }
  }
  const bool shared = helpers > 0;
  if (shared) {
    workers_->offer(request, helpers);
  }
  work_chunks(request, *session);
  session.release();
  if (!shared || workers_->leave(request)) {
    finish_request(request);
  }
}

// One chunk as far as the limits go: each costs a call of the device. Where it is shared, several
// for each thread, since not all of them begin at once.
std::uint64_t EncryptedImage::plan_chunks(IoRequest& request,
                                          std::uint64_t length_bytes) const noexcept {
  const bool is_write = request.kind == IoRequest::Kind::write;
  std::uint64_t chunk_bytes = std::min<std::uint64_t>(
      is_write ? max_write_size_bytes() : max_read_size_bytes(), engine_max_bytes_);
  const std::uint64_t helpers = idle_workers(request, length_bytes);
  if (helpers > 0) {
    const std::uint64_t part =
        round_down(length_bytes / (kPartsPerThread * (helpers + 1)), spec_.sector_size_bytes);
    chunk_bytes = std::min(chunk_bytes, std::max(part, kMinSharedChunkBytes));
  }
  request.chunk_sectors_ = chunk_bytes / spec_.sector_size_bytes;
  request.chunk_count_ = chunk_count(request.extent_, request.chunk_sectors_);
  return std::min(helpers, request.chunk_count_ - 1);
}

// Callers and workers are about as many as cores: with that many requests under way every core has
// one of its own, and a hand-over would only cost.
std::uint64_t EncryptedImage::idle_workers(const IoRequest& request,
                                           std::uint64_t length_bytes) const noexcept {
  const std::uint64_t busy = in_flight_.load(kRelaxed);
  const std::uint64_t cores = workers_->size() + std::uint64_t{1};
  const bool is_write = request.kind == IoRequest::Kind::write;
  const bool is_worth_it =
      length_bytes >= (is_write ? min_shared_write_bytes_ : min_shared_read_bytes_);
  return request.alone || request.in_stream_ || !is_worth_it || busy >= cores ? 0 : cores - busy;
}

// What precedes the rest is whole chunks, so the rest begins with a sector.
bool EncryptedImage::serve_ahead(IoRequest& request) noexcept {
  read_ahead_->take(request.offset_bytes, request.length_bytes, request.ahead);
  // The helper deciphers what comes next meanwhile: a worker would only take its core.
  request.in_stream_ = read_ahead_->note_read(request.offset_bytes, request.length_bytes);
  if (request.ahead.count > 0) {
    const ByteExtent there = cover(request.offset_bytes, request.ahead.bytes);
    if (!device_->reaches(there.offset_bytes, there.length_bytes)) {
      // The container was cut short: the ordinary way knows the error.
      request.ahead.bytes = 0;
      read_ahead_->release(request.ahead);
    }
  }
  const bool is_all = request.ahead.bytes == request.length_bytes;
  if (!request.takes_pieces && request.ahead.count > 0) {
    std::byte* target = request.buffer.data() + request.offset_bytes % spec_.sector_size_bytes;
    for (const Bytes piece : std::span(request.ahead.pieces).first(request.ahead.count)) {
      std::memcpy(target, piece.data(), piece.size());
      target += piece.size();
    }
  }
  return is_all;
}

Status EncryptedImage::fill(std::uint64_t offset_bytes, MutableBytes target) noexcept {
  return read_sectors(cryptimg::cover(offset_bytes, target.size(), spec_.sector_size_bytes), target,
                      *ahead_session_);
}

Status EncryptedImage::check(const IoRequest& request) const noexcept {
  if (request.kind == IoRequest::Kind::write && read_only_) {
    return fail(Errc::read_only);
  }
  if (!has_keys_.load(kRelaxed)) {
    return fail(Errc::unavailable, "the mount is locked");
  }
  if (request.length_bytes == 0 ||
      !inside(request.offset_bytes, request.length_bytes, size_bytes_) ||
      request.buffer.size() != cover(request.offset_bytes, request.length_bytes).length_bytes) {
    return fail(Errc::out_of_range);
  }
  return {};
}

// Read-modify-write: what the first and last sector hold beside the caller's bytes.
Status EncryptedImage::fill_partial_sectors(IoRequest& request, CipherSession& session) noexcept {
  const std::uint32_t sector_size = spec_.sector_size_bytes;
  const std::size_t head = request.offset_bytes % sector_size;
  const std::size_t tail = request.buffer.size() - head - request.length_bytes;
  if (head == 0 && tail == 0) {
    return {};
  }
  counters_.partial_sector_writes.fetch_add(1, kRelaxed);
  SectorScratch scratch(sector_size);
  const MutableBytes old = scratch.bytes();
  const auto load = [&](std::uint64_t sector) -> Status {
    CRYPTIMG_RETURN_IF_ERROR(device_->read(sector * sector_size, old));
    return session.transform(Direction::decrypt, sector, old, old);
  };
  const std::uint64_t first = request.extent_.first_sector;
  const std::uint64_t last = request.extent_.end_sector() - 1;
  if (head > 0) {
    CRYPTIMG_RETURN_IF_ERROR(load(first));
    std::memcpy(request.buffer.data(), old.data(), head);
  }
  if (tail > 0) {
    if (head == 0 || last != first) {
      CRYPTIMG_RETURN_IF_ERROR(load(last));
    }
    std::memcpy(request.buffer.last(tail).data(), old.last(tail).data(), tail);
  }
  return {};
}

void EncryptedImage::work(WorkerPool::Job& job, unsigned worker) noexcept {
  const std::uint64_t done = work_chunks(static_cast<IoRequest&>(job), *worker_sessions_[worker]);
  counters_.chunks_by_workers.fetch_add(done, kRelaxed);
}

void EncryptedImage::finish(WorkerPool::Job& job) noexcept {
  finish_request(static_cast<IoRequest&>(job));
}

// Takes chunks until none is left or one has failed. Returns how many it took.
std::uint64_t EncryptedImage::work_chunks(IoRequest& request, CipherSession& session) noexcept {
  std::uint64_t taken = 0;
  while (!request.failed_.load(kRelaxed)) {
    const std::uint64_t index = request.next_chunk_.fetch_add(1, kRelaxed);
    if (index >= request.chunk_count_) {
      break;
    }
    ++taken;
    if (Status status = work_chunk(request, index, session); !status) {
      record_failure(request, std::move(status.error()));
    }
  }
  counters_.chunks.fetch_add(taken, kRelaxed);
  return taken;
}

Status EncryptedImage::work_chunk(IoRequest& request, std::uint64_t index,
                                  CipherSession& session) noexcept {
  const std::uint32_t sector_size = spec_.sector_size_bytes;
  const Extent sectors = chunk(request.extent_, request.chunk_sectors_, index);
  const ByteExtent bytes = to_bytes(sectors, sector_size);
  const MutableBytes part = request.sectors_.subspan(
      (sectors.first_sector - request.extent_.first_sector) * sector_size, bytes.length_bytes);
  if (request.kind == IoRequest::Kind::read) {
    return read_sectors(sectors, part, session);
  }
  CRYPTIMG_RETURN_IF_ERROR(session.transform(Direction::encrypt, sectors.first_sector, part, part));
  return device_->write(bytes.offset_bytes, part);
}

Status EncryptedImage::read_sectors(const Extent& sectors, MutableBytes target,
                                    CipherSession& session) noexcept {
  if (target.size() < kMinViewBytes) {
    return read_in_place(sectors, target, session);
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto note = [&](ReadWay::Way way) {
    const auto took = std::chrono::nanoseconds(Clock::now() - begin).count();
    read_way_.note(way, target.size(), static_cast<std::uint64_t>(took));
  };
  const std::uint64_t offset_bytes = sectors.first_sector * spec_.sector_size_bytes;
  const bool takes_view = always_view_ || read_way_.choose() == ReadWay::Way::view;
  const Bytes view = takes_view ? device_->view(offset_bytes, target.size()) : Bytes();
  if (!view.empty()) {
    CRYPTIMG_RETURN_IF_ERROR(
        session.transform(Direction::decrypt, sectors.first_sector, view, target));
    if (device_->view_held(offset_bytes, target.size())) {
      counters_.mapped_bytes.fetch_add(target.size(), kRelaxed);
      note(ReadWay::Way::view);
      return {};
    }
  }
  CRYPTIMG_RETURN_IF_ERROR(read_in_place(sectors, target, session));
  if (!takes_view) {
    note(ReadWay::Way::read);
  }
  return {};
}

Status EncryptedImage::read_in_place(const Extent& sectors, MutableBytes target,
                                     CipherSession& session) noexcept {
  CRYPTIMG_RETURN_IF_ERROR(device_->read(sectors.first_sector * spec_.sector_size_bytes, target));
  return session.transform(Direction::decrypt, sectors.first_sector, target, target);
}

void EncryptedImage::record_failure(IoRequest& request, Error error) noexcept {
  if (!request.failed_.exchange(true)) {
    request.error_ = std::move(error);
  }
}

// Alone with the request. The range is let go before a durable write's flush, which may take long:
// the write is done, and readers may see it.
void EncryptedImage::finish_request(IoRequest& request) noexcept {
  Status status;
  if (request.failed_.load(kRelaxed)) {
    status = tl::unexpected(std::exchange(request.error_, Error{}));
  }
  if (request.kind == IoRequest::Kind::write) {
    flusher_.note_write();
    if (read_ahead_ != nullptr) {
      read_ahead_->end_write(to_bytes(request.extent_, spec_.sector_size_bytes));
    }
    request.hold_.release();
    if (status && request.durable) {
      status = flusher_.flush();
    }
  } else {
    request.hold_.release();
  }
  complete(request, std::move(status));
}

void EncryptedImage::complete(IoRequest& request, Status status) noexcept {
  if (request.kind == IoRequest::Kind::read) {
    if (status) {
      counters_.reads.fetch_add(request.merged, kRelaxed);
      counters_.read_bytes.fetch_add(request.length_bytes, kRelaxed);
    } else {
      wipe(request.buffer);
      counters_.read_errors.fetch_add(1, kRelaxed);
    }
  } else if (status) {
    counters_.writes.fetch_add(request.merged, kRelaxed);
    counters_.written_bytes.fetch_add(request.length_bytes, kRelaxed);
  } else {
    counters_.write_errors.fetch_add(1, kRelaxed);
  }
  // The pins outlive the request, which the completion may free.
  ReadAhead::Taken ahead = request.ahead;
  request.completion(request, std::move(status));
  if (ahead.count > 0) {
    read_ahead_->release(ahead);
  }
  in_flight_.fetch_sub(1);
}

}  // namespace cryptimg
