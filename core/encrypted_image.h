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
//     read is served. The completion may run on the submitting thread, before submit() returns, or
//     on a worker. It never runs with a lock of this module held, but for the request's range.
//   * A failed flush is sticky: every later flush and durable write reports it, until remount.
//
// All functions may be called from any thread. No allocation and no lock while ciphering.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <vector>

#include "core/block_device.h"
#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "core/extent.h"
#include "core/range_lock.h"
#include "core/result.h"

namespace cryptimg {

class WorkerPool;
class EncryptedImage;

inline constexpr std::uint32_t kDefaultMaxChunkBytes = 131072;  // dm-crypt's max_read_size

// One read or write. The caller owns it, and its buffer, until its completion has been called;
// it may be freed or reused from inside the completion.
struct IoRequest {
  enum class Kind : std::uint8_t { read, write };
  using Completion = void (*)(IoRequest& request, Status status) noexcept;

  Kind kind = Kind::read;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  // Exactly the covering extent: cover(offset, length).size_bytes() bytes. The caller's own bytes
  // start at offset_bytes % sector size. A write's bytes are there at submit and are destroyed
  // (enciphered in place); the rest of the first and last sector is filled in here. After a
  // successful read the whole extent is plaintext.
  MutableBytes buffer;
  // Writes: flush the device before completing (O_SYNC, O_DSYNC).
  bool durable = false;
  Completion completion = nullptr;
  void* context = nullptr;  // the caller's

 private:
  friend class EncryptedImage;
  // Set by submit; see encrypted_image.cc for who touches what.
  Extent extent_;
  std::uint32_t chunk_sectors_ = 0;
  std::uint32_t chunk_count_ = 0;
  std::atomic<std::uint32_t> next_chunk_{0};
  std::atomic<std::uint32_t> unfinished_chunks_{0};
  std::atomic<std::uint32_t> references_{0};
  std::atomic<bool> failed_{false};
  Error error_;
  RangeLock::Hold hold_;
};

struct ImageOptions {
  std::uint64_t size_bytes = 0;  // a positive multiple of the sector size
  bool read_only = false;
  unsigned workers = 0;  // threads besides the callers that cipher; 0: none
  // Chunk limits, rounded down to whole sectors, at least one; 0: kDefaultMaxChunkBytes.
  std::uint32_t max_read_size_bytes = 0;
  std::uint32_t max_write_size_bytes = 0;
};

// Counters since the mount, all monotonic. A snapshot is not atomic across fields.
struct ImageCounters {
  std::uint64_t reads = 0;
  std::uint64_t writes = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t partial_sector_writes = 0;  // requests that needed a read-modify-write
  std::uint64_t chunks = 0;
  std::uint64_t chunks_by_workers = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t write_errors = 0;
  std::uint64_t flush_errors = 0;
};

class EncryptedImage {
 public:
  // Opens one cipher session per worker and `max_callers` more for submitting threads (a caller
  // beyond that waits for a session to come free). The engine and key are not needed afterwards.
  static Result<std::unique_ptr<EncryptedImage>> create(std::unique_ptr<BlockDevice> device,
                                                        const CipherEngine& engine,
                                                        const CipherSpec& spec, const Secret& key,
                                                        const ImageOptions& options,
                                                        unsigned max_callers);
  // Waits for the requests in flight and joins the workers; does not flush.
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

  // Makes a range read as zeros, by enciphering zeros in pieces of at most scratch.size() bytes.
  // Blocks until done. REQUIRES: scratch holds at least three sectors.
  Status zero(std::uint64_t offset_bytes, std::uint64_t length_bytes, MutableBytes scratch) noexcept;

  // Every write completed before the call is on stable storage on return. Sticky once failed.
  Status flush() noexcept;
  // As flush(), but does nothing where no write completed since the last successful flush.
  Status flush_if_dirty() noexcept;
  // The number of the latest completed write, and up to which one all is known to be flushed: a
  // file handle whose last write is at most flushed_sequence() has nothing to sync.
  [[nodiscard]] std::uint64_t write_sequence() const noexcept;
  [[nodiscard]] std::uint64_t flushed_sequence() const noexcept;
  // The sticky error, if a flush has failed.
  [[nodiscard]] Status flush_state() const noexcept;

  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;
  [[nodiscard]] timespec modified_time() noexcept;

  // Live tunables: in bytes, rounded as in ImageOptions. The setters return the value in force.
  [[nodiscard]] std::uint32_t max_read_size_bytes() const noexcept;
  [[nodiscard]] std::uint32_t max_write_size_bytes() const noexcept;
  std::uint32_t set_max_read_size(std::uint32_t bytes) noexcept;
  std::uint32_t set_max_write_size(std::uint32_t bytes) noexcept;

  [[nodiscard]] unsigned workers() const noexcept;
  [[nodiscard]] ImageCounters counters() const noexcept;
  [[nodiscard]] std::uint64_t in_flight() const noexcept;

 private:
  // (to be completed by the implementation)
  CipherSpec spec_;
  std::uint64_t size_bytes_ = 0;
  bool read_only_ = false;
};

}  // namespace cryptimg
