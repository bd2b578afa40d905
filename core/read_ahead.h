// SPDX-License-Identifier: GPL-3.0-or-later
//
// ReadAhead: plaintext of sequential streams, deciphered before it is asked for. One thread of its
// own fills a ring of chunks ahead of each stream; readers take what is there and do the rest
// themselves, they never wait for it. It runs only where a core has nothing else to do.
//
// What is kept is only ever a copy: no read that starts after a write was acknowledged gets older
// bytes, also where a fill was under way across the write. A writer brackets its write with
// begin_write() and end_write(): the first drops what is ready and dooms what is being filled, and
// a fill that begins before the second gives up. Readers pin what they take, so that it stays as it
// was until they have replied.
//
// take(), release(), begin_write() and end_write() may be called from any thread, and neither lock
// nor allocate; note_read() tries a lock and does without where another has it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/anonymous_memory.h"
#include "core/bytes.h"
#include "core/extent.h"
#include "core/result.h"

namespace cryptimg {

class ReadAhead {
 public:
  static constexpr std::size_t kChunkBytes = 128U << 10;
  static constexpr std::size_t kMaxPieces = 9;  // what 1 MiB at any offset touches

  // Who can decipher. Called on the helper thread only.
  class Source {
   public:
    // Fills `target` with plaintext from `offset_bytes` on, whole sectors. Holds no range: a write
    // at the same time may make it garbage, which is then thrown away.
    virtual Status fill(std::uint64_t offset_bytes, MutableBytes target) noexcept = 0;

   protected:
    ~Source() = default;
  };

  // Plaintext that was pinned: the bytes from the offset asked for on, in order.
  struct Taken {
    std::array<Bytes, kMaxPieces> pieces;
    std::array<std::uint16_t, kMaxPieces> slots;
    std::size_t count = 0;
    std::uint64_t bytes = 0;
  };

  struct Counters {
    std::uint64_t hit_bytes = 0;     // taken by readers
    std::uint64_t filled_bytes = 0;  // deciphered ahead
    std::uint64_t dropped = 0;       // chunks given up because of a write
  };

  // Of the thread: behind all that have something to do, or one of them, for tests that wait for
  // what it does on a machine that is never idle.
  enum class Priority : std::uint8_t { idle, normal };

  // A ring of about `ring_bytes`, at least four chunks, over an image of `image_bytes`. `source`
  // outlives this. Fails where memory or thread cannot be had.
  static Result<std::unique_ptr<ReadAhead>> create(std::uint64_t ring_bytes,
                                                   std::uint64_t image_bytes, Source& source,
                                                   Priority priority = Priority::idle);
  // Waits for a fill that is under way. REQUIRES: nothing pinned.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Fills nothing more. False where a fill that is under way does not end within `patience`, its
  // device being stuck: the destructor would then wait for it. REQUIRES: one thread calls it.
  [[nodiscard]] bool stop(std::chrono::milliseconds patience) noexcept;

  // Pins what is ready of [offset, offset + length), from its start up to the first chunk that is
  // not; nothing beyond kMaxPieces. Give it back with release().
  void take(std::uint64_t offset_bytes, std::uint64_t length_bytes, Taken& taken) noexcept;
  void release(Taken& taken) noexcept;
  // Tells of a read, taken or not, which decides what is filled next. Whether it is of a stream.
  bool note_read(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;

  void begin_write(const ByteExtent& range) noexcept;
  void end_write(const ByteExtent& range) noexcept;

  // Forgets all streams and wipes what was deciphered for them; nothing is deciphered until reads
  // make new ones. False, with some of it left, where the thread is at a chunk for longer than
  // `patience`. REQUIRES: nothing is pinned, and no read or write goes on meanwhile.
  bool clear(std::chrono::milliseconds patience) noexcept;

  [[nodiscard]] Counters counters() const noexcept;

 private:
  // A slot's word: chunk number << 16 | pins << 8 | state.
  enum class State : std::uint8_t { free, filling, doomed, ready, stale };
  struct Stream {
    std::uint64_t next_bytes = 0;    // where the reader is
    std::uint64_t next_chunk = 0;    // first that was not filled yet
    std::uint64_t window_bytes = 0;  // how far ahead; 0: not known to be one
    std::uint64_t used_at = 0;       // tick_ of the last read
    bool in_use = false;
  };
  static constexpr std::size_t kStreams = 8;
  static constexpr std::size_t kCandidates = 4;
  static constexpr std::size_t kStripes = 64;

  ReadAhead(AnonymousMemory memory, std::uint64_t image_bytes, Source& source);
  void run() noexcept;
  enum class Found : std::uint8_t { nothing, stream, hungry_stream };
  Found find_stream(std::uint64_t offset_bytes, std::uint64_t end_bytes) noexcept;
  [[nodiscard]] std::uint64_t window_limit() const noexcept;
  [[nodiscard]] std::uint64_t target_chunk(const Stream& stream) const noexcept;
  // The most urgent chunk to fill; false where every window is full. REQUIRES: mutex_ held.
  bool next_fill(std::uint64_t& chunk) noexcept;
  [[nodiscard]] bool is_wanted(std::uint64_t chunk) const noexcept;
  void retire(std::atomic<std::uint64_t>& slot) noexcept;
  bool fill(std::uint64_t chunk, std::size_t slot) noexcept;
  // A slot to fill, marked for `chunk`; slots_.size() where there is none. REQUIRES: mutex_ held.
  std::size_t claim_slot(std::uint64_t chunk) noexcept;
  // Forgets streams without reads since the last call, and wipes what they left. False where
  // nothing is kept any more. REQUIRES: mutex_ held.
  bool expire() noexcept;
  [[nodiscard]] MutableBytes memory_of(std::size_t slot) const noexcept;
  [[nodiscard]] bool being_written(std::uint64_t chunk) const noexcept;
  template <typename Visit>
  void for_each_stripe(const ByteExtent& range, Visit visit) noexcept;

  const AnonymousMemory memory_;
  const std::uint64_t image_bytes_;
  Source& source_;
  std::vector<std::atomic<std::uint64_t>> slots_;
  std::array<std::atomic<std::uint32_t>, kStripes> writers_{};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable filled_;
  std::vector<bool> holds_plaintext_;           // by slot; guarded by mutex_
  std::array<Stream, kStreams> streams_;        // guarded by mutex_
  std::array<Stream, kCandidates> candidates_;  // guarded by mutex_
  std::size_t next_candidate_ = 0;              // guarded by mutex_
  std::uint64_t tick_ = 0;                      // guarded by mutex_
  bool sleeping_ = false;                       // guarded by mutex_
  bool filling_ = false;                        // guarded by mutex_
  bool stop_ = false;                           // guarded by mutex_
  bool has_ended_ = false;                      // guarded by mutex_
  std::condition_variable ended_;

  std::atomic<std::uint64_t> hit_bytes_{0};
  std::atomic<std::uint64_t> filled_bytes_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::thread thread_;  // constant after create()
};

}  // namespace cryptimg
