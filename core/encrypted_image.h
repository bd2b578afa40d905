// SPDX-License-Identifier: GPL-3.0-or-later
//
// EncryptedImage: the decrypted image as the edge sees it. Takes byte ranges of any offset and
// length, and turns them into extents of whole sectors, ciphered in chunks over the calling thread
// and the idle workers, read from and written to a BlockDevice.
//
// What is promised to callers
//   * A reader sees each sector old or new, never a mixture: reads hold their sector range shared,
//     writes hold theirs exclusively (RangeLock) from the first backing read to the last backing
//     write. Overlapping writes are ordered.
//   * A request completes exactly once, with all its bytes or with one Error; nothing of a failed
//     read is served: its buffer is zeroed. The completion may run on the submitting thread, before
//     submit() returns, or on a worker. It runs with nothing of this module held, the request's
//     range included, and may submit again.
//   * A failed flush is sticky: every later flush and durable write reports it, until remount.
//
// All functions may be called from any thread. A request allocates nothing, and no mutex is held
// while ciphering or during the device's reads and writes.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <vector>

#include "core/block_device.h"
#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "core/extent.h"
#include "core/flusher.h"
#include "core/range_lock.h"
#include "core/read_ahead.h"
#include "core/read_way.h"
#include "core/result.h"
#include "core/session_pool.h"
#include "core/worker_pool.h"

namespace cryptimg {

class EncryptedImage;

inline constexpr std::size_t kExtentSizes = 12;  // 512 bytes to 1 MiB, by powers of two
inline constexpr std::uint32_t kDefaultMaxChunkBytes = 1U << 20;  // what a FUSE request can be

// One read or write. The caller owns it, and its buffer, until its completion has been called;
// it may be freed or reused from inside the completion.
struct IoRequest : private WorkerPool::Job {
  enum class Kind : std::uint8_t { read, write };
  using Completion = void (*)(IoRequest& request, Status status) noexcept;

  Kind kind = Kind::read;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  // Exactly the covering extent: cover(offset, length).size_bytes() bytes. The caller's own bytes
  // start at offset_bytes % sector size. A write's bytes are there at submit and are destroyed
  // (enciphered in place); the rest of the first and last sector is filled in here. After a
  // successful read the caller's own bytes are plaintext there, but for those in `ahead`.
  MutableBytes buffer;
  // Reads of a caller that takes its first ahead.bytes from ahead.pieces, which are there until the
  // completion returns, instead of from the buffer, which then is without them.
  bool takes_pieces = false;
  ReadAhead::Taken ahead;
  // Writes: flush the device before completing (O_SYNC, O_DSYNC).
  bool durable = false;
  // Without help from the workers; done when submit() returns.
  bool alone = false;
  std::uint32_t merged = 1;  // how many of the client's requests it serves, for the counters
  Completion completion = nullptr;
  void* context = nullptr;  // the caller's

 private:
  friend class EncryptedImage;
  // Set by submit() before other threads see the request.
  bool in_stream_ = false;  // and the next ones are being deciphered ahead
  Extent extent_;           // without what came from ahead
  MutableBytes sectors_;    // its place in the buffer
  std::uint64_t chunk_sectors_ = 0;
  std::uint64_t chunk_count_ = 0;
  RangeLock::Hold hold_;
  // Shared by the threads that work on it. A chunk belongs to the thread that took its number.
  std::atomic<std::uint64_t> next_chunk_{0};
  std::atomic<bool> failed_{false};
  Error error_;  // written by the thread that set failed_, read by the one that finishes
};

struct ImageOptions {
  std::uint64_t size_bytes = 0;  // a positive multiple of the sector size
  bool read_only = false;
  unsigned workers = 0;  // threads besides the callers that cipher; 0: none
  // Chunk limits, rounded down to whole sectors, at least one; 0: kDefaultMaxChunkBytes.
  std::uint32_t max_read_size_bytes = 0;
  std::uint32_t max_write_size_bytes = 0;
  // Take what the device has in memory from there even where reading it would be faster.
  bool always_view = false;
  // Workers help with extents of at least this size; see measure_sharing().
  std::uint64_t min_shared_read_bytes = 0;
  std::uint64_t min_shared_write_bytes = 0;
  std::uint64_t readahead_bytes = 0;  // memory for reading ahead of sequential streams; 0: none
  ReadAhead::Priority readahead_priority = ReadAhead::Priority::idle;
};

// Counters since the mount, all monotonic. A snapshot is not atomic across fields.
struct ImageCounters {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t ahead_bytes = 0;   // read from what was deciphered ahead
  std::uint64_t filled_bytes = 0;  // deciphered ahead, used or not
  std::uint64_t mapped_bytes = 0;  // deciphered straight out of the device's memory
  std::uint64_t fetched = 0;       // ranges of a batch that were fetched from the disk beforehand
  std::uint64_t merged = 0;        // requests that became part of an extent together with others
  std::uint64_t partial_sector_writes = 0;  // requests that needed a read-modify-write
  std::uint64_t chunks = 0;
  std::uint64_t chunks_by_workers = 0;
  std::uint64_t contended_ranges = 0;    // another thread was at the same part of the range lock
  std::uint64_t contended_sessions = 0;  // or at the cipher sessions
  std::uint64_t read_errors = 0;
  std::uint64_t write_errors = 0;
  std::uint64_t flush_errors = 0;
  // Extents of reads and writes by size: element n counts those of more than 256 << n bytes and at
  // most 512 << n; the last one longer ones too.
  std::array<std::uint64_t, kExtentSizes> extents{};
};

class EncryptedImage final : private WorkerPool::Handler, private ReadAhead::Source {
 public:
  // Opens one cipher session per worker and `max_callers` more for submitting threads (a caller
  // beyond that waits for a session to come free). The engine and key are not needed afterwards.
  // invalid_argument for a size, sector size or max_callers that cannot be; unsupported for an
  // engine that wants aligned buffers or cannot take a whole sector; else as the engine fails, or
  // unavailable or out_of_memory where the threads cannot be started.
  static Result<std::unique_ptr<EncryptedImage>> create(std::unique_ptr<BlockDevice> device,
                                                        const CipherEngine& engine,
                                                        const CipherSpec& spec, const Secret& key,
                                                        const ImageOptions& options,
                                                        unsigned max_callers);
  // Waits for the requests in flight and for what is being deciphered ahead, and joins the threads;
  // does not flush.
  ~EncryptedImage();
  EncryptedImage(const EncryptedImage&) = delete;
  EncryptedImage& operator=(const EncryptedImage&) = delete;

  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] std::uint32_t sector_size_bytes() const { return spec_.sector_size_bytes; }
  [[nodiscard]] bool read_only() const { return read_only_; }

  // The whole sectors a byte range touches. REQUIRES: length > 0, range inside the image.
  [[nodiscard]] ByteExtent cover(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;

  // Starts a request; it completes exactly once, also when this finds it invalid (out_of_range for
  // ranges not inside the image or a wrong buffer, read_only for writes to a read-only image).
  // May block while the range is held by others, or for a session.
  void submit(IoRequest& request) noexcept;

  // Begins to fetch a range that will be read soon from the disk, if it is not in memory; a hint,
  // waits for nothing. Whether there was something to fetch. REQUIRES: the range lies inside.
  bool fetch_ahead(const ByteExtent& range) noexcept;

  // Makes a range read as zeros, by enciphering zeros in pieces of at most scratch.size() bytes,
  // each a write of its own. Blocks until done; stops at the first failure, with the pieces before
  // it zeroed. out_of_range and read_only as for writes; a length of 0 is nothing to do.
  // REQUIRES: scratch holds at least three sectors (else invalid_argument).
  Status zero(std::uint64_t offset_bytes, std::uint64_t length_bytes,
              MutableBytes scratch) noexcept;

  // Every write completed before the call is on stable storage on return. Sticky once failed.
  Status flush() noexcept;
  // As flush(), but does nothing where no write completed since the last successful flush.
  Status flush_if_dirty() noexcept;
  // The number of the latest completed write, and up to which one all is known to be flushed: a
  // file handle whose last write is at most flushed_sequence() has nothing to sync. A write has its
  // number before its completion runs; one that failed has one too, part of it may be there.
  [[nodiscard]] std::uint64_t write_sequence() const noexcept;
  [[nodiscard]] std::uint64_t flushed_sequence() const noexcept;
  // The sticky error, if a flush has failed. Never blocks, also while a flush is stuck.
  [[nodiscard]] Status flush_state() const noexcept;

  // Deciphers nothing more ahead of readers; what is there is still served. False where the device
  // keeps that from ending within `patience`: the destructor would then wait for it.
  [[nodiscard]] bool stop_reading_ahead(std::chrono::milliseconds patience) noexcept;

  // Reserves space in the backing file, see BlockDevice. out_of_range and read_only as for writes.
  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;
  [[nodiscard]] timespec modified_time() noexcept;

  // Live tunables: in bytes, rounded as in ImageOptions. The setters return the value in force.
  [[nodiscard]] std::uint32_t max_read_size_bytes() const noexcept;
  [[nodiscard]] std::uint32_t max_write_size_bytes() const noexcept;
  std::uint32_t set_max_read_size(std::uint32_t bytes) noexcept;
  std::uint32_t set_max_write_size(std::uint32_t bytes) noexcept;

  // Wipes the cipher sessions and what was deciphered ahead: until take_key() requests that would
  // cipher complete with `unavailable`. Fails, with nothing changed, where a read ahead is stuck
  // for longer than `patience`. REQUIRES: no request is in flight, none is submitted meanwhile.
  Status drop_keys(std::chrono::milliseconds patience) noexcept;
  // Opens the sessions again, by the engine and the key that create() was given; that it is the key
  // is the caller's to know. Fails as create(), then still without. REQUIRES: as drop_keys().
  Status take_key(const CipherEngine& engine, const Secret& key);
  [[nodiscard]] bool has_keys() const noexcept { return has_keys_.load(); }

  [[nodiscard]] unsigned workers() const noexcept;
  [[nodiscard]] ImageCounters counters() const noexcept;
  // Requests submitted and not yet done with; a request counts until its completion has returned.
  [[nodiscard]] std::uint64_t in_flight() const noexcept;

 private:
  // ImageCounters, but counting. Each is only ever added to.
  struct LiveCounters {
    std::atomic<std::uint64_t> reads{0};
    std::atomic<std::uint64_t> writes{0};
    std::atomic<std::uint64_t> read_bytes{0};
    std::atomic<std::uint64_t> written_bytes{0};
    std::atomic<std::uint64_t> mapped_bytes{0};
    std::atomic<std::uint64_t> fetched{0};
    std::atomic<std::uint64_t> merged{0};
    std::array<std::atomic<std::uint64_t>, kExtentSizes> extents{};
    std::atomic<std::uint64_t> partial_sector_writes{0};
    std::atomic<std::uint64_t> chunks{0};
    std::atomic<std::uint64_t> chunks_by_workers{0};
    std::atomic<std::uint64_t> read_errors{0};
    std::atomic<std::uint64_t> write_errors{0};
  };

  EncryptedImage(std::unique_ptr<BlockDevice> device, const CipherSpec& spec,
                 const ImageOptions& options, std::uint64_t engine_max_bytes, unsigned max_callers);
  void close_sessions() noexcept;

  // WorkerPool::Handler.
  void work(WorkerPool::Job& job, unsigned worker) noexcept override;
  void finish(WorkerPool::Job& job) noexcept override;
  // ReadAhead::Source.
  Status fill(std::uint64_t offset_bytes, MutableBytes target) noexcept override;
  // Serves the start of a read from what was deciphered ahead; true where that is all of it.
  bool serve_ahead(IoRequest& request) noexcept;

  [[nodiscard]] Status check(const IoRequest& request) const noexcept;
  // Cuts what is left of a request, `length_bytes`, into chunks. Returns how many workers are asked
  // to help.
  std::uint64_t plan_chunks(IoRequest& request, std::uint64_t length_bytes) const noexcept;
  [[nodiscard]] std::uint64_t idle_workers(const IoRequest& request,
                                           std::uint64_t length_bytes) const noexcept;
  void count_extent(const IoRequest& request, std::uint64_t size_bytes) noexcept;
  Status fill_partial_sectors(IoRequest& request, CipherSession& session) noexcept;
  std::uint64_t work_chunks(IoRequest& request, CipherSession& session) noexcept;
  Status work_chunk(IoRequest& request, std::uint64_t index, CipherSession& session) noexcept;
  // Reads and deciphers whole sectors. REQUIRES: their range is held.
  Status read_sectors(const Extent& sectors, MutableBytes target, CipherSession& session) noexcept;
  Status read_in_place(const Extent& sectors, MutableBytes target, CipherSession& session) noexcept;
  static void record_failure(IoRequest& request, Error error) noexcept;
  void finish_request(IoRequest& request) noexcept;
  void complete(IoRequest& request, Status status) noexcept;
  Status submit_and_wait(IoRequest& request) noexcept;
  [[nodiscard]] std::uint32_t round_chunk(std::uint32_t bytes) const noexcept;

  // Constant after construction.
  const CipherSpec spec_;
  const std::uint64_t size_bytes_;
  const bool read_only_;
  const std::uint64_t engine_max_bytes_;  // whole sectors, at least one
  const bool always_view_;
  const std::uint64_t min_shared_read_bytes_;
  const std::uint64_t min_shared_write_bytes_;
  const unsigned worker_count_;
  const unsigned max_callers_;
  const bool reads_ahead_;
  const std::unique_ptr<BlockDevice> device_;

  // Changed by take_key() and drop_keys() only, when no request is there.
  std::vector<std::unique_ptr<CipherSession>> worker_sessions_;  // by worker, used by it alone
  std::unique_ptr<CipherSession> ahead_session_;                 // used by read_ahead_ alone
  std::atomic<bool> has_keys_{false};

  // Provide their own synchronisation.
  SessionPool caller_sessions_;
  RangeLock range_lock_;
  Flusher flusher_;
  LiveCounters counters_;
  ReadWay read_way_;
  std::atomic<std::uint64_t> in_flight_{0};
  std::atomic<std::uint32_t> max_read_size_bytes_;
  std::atomic<std::uint32_t> max_write_size_bytes_;

  // Constant after create(); last, so that their threads go first.
  std::unique_ptr<ReadAhead> read_ahead_;  // or none
  std::unique_ptr<WorkerPool> workers_;
};

}  // namespace cryptimg
