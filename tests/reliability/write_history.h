// SPDX-License-Identifier: GPL-3.0-or-later
//
// WriteHistory: what an image's callers have written and been told, and hence what each byte may be
// after a power cut. It knows nothing of engines, devices or caches: it is told of requests and
// flushes only, and judges plaintext.
//
// The image is cut into parts, at any byte. Writes of one part follow each other; those of
// different parts may run at once, also in the same sector. So the content of each sector of a part
// has numbered versions, in one order.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/cipher_engine.h"

namespace cryptimg::test {

inline constexpr std::uint64_t kNever = UINT64_MAX;

// The writes of one part. One thread's at a time.
class PartHistory {
 public:
  // `content`: what the part holds at first, and on the disk.
  PartHistory(std::uint64_t begin_bytes, Bytes content, std::uint32_t sector_size_bytes);

  [[nodiscard]] std::uint64_t begin_bytes() const { return begin_bytes_; }
  [[nodiscard]] std::uint64_t end_bytes() const { return begin_bytes_ + current_.size(); }
  // What was last written, whether or not it ended well.
  [[nodiscard]] Bytes current(std::uint64_t offset_bytes, std::uint64_t length_bytes) const {
    return Bytes(current_).subspan(offset_bytes - begin_bytes_, length_bytes);
  }

  // A write is about to be submitted. Returns its number. REQUIRES: none is under way here.
  std::size_t begin_write(std::uint64_t offset_bytes, Bytes content, std::uint64_t tick);
  void end_write(std::size_t number, std::uint64_t tick);
  // At `tick` it was promised that this write is on the disk.
  void promise(std::size_t number, std::uint64_t tick);
  // The number of writes; the first is 1, since version 0 is what was there.
  [[nodiscard]] std::size_t writes() const { return writes_.size() - 1; }

 private:
  friend class WriteHistory;
  struct Write {
    std::uint64_t begun = 0;
    std::uint64_t ended = kNever;
    std::uint64_t on_disk = kNever;  // when somebody was told that it is
  };
  struct Version {
    std::size_t write = 0;
    std::vector<std::byte> bytes;
  };
  // The bytes of one sector that belong to this part.
  struct Slice {
    std::uint64_t offset_bytes = 0;
    std::vector<Version> versions;
  };

  const std::uint64_t begin_bytes_;
  std::vector<std::byte> current_;
  std::vector<Write> writes_;
  std::vector<Slice> slices_;
};

class WriteHistory {
 public:
  WriteHistory(const CipherSpec& spec, Bytes content, const std::vector<std::uint64_t>& part_ends);

  // Any thread, for a part of its own.
  [[nodiscard]] PartHistory& part(std::size_t index) { return parts_[index]; }
  [[nodiscard]] std::size_t parts() const { return parts_.size(); }
  // A flush of the whole image has been promised: called at one tick, back at the other. Any
  // thread.
  void flushed(std::uint64_t called, std::uint64_t returned);

  // Call when nothing is under way any more, before any judge().
  void close();

  struct Verdict {
    std::string complaint;    // empty: as promised
    std::uint64_t exact = 0;  // sectors of parts with one possible content
    std::uint64_t old = 0;    // and those that were found older than the newest possible,
    std::uint64_t fresh = 0;  // or newer than the oldest
  };
  // Judges the image's plaintext after a cut at `cut`. `is_torn`: the disk may have torn sectors in
  // units of 512 bytes. Then each block of 16 bytes may be old or new by itself; and of CBC the
  // first block of each unit may be anything where its sector was being written, since it depends
  // on the unit before.
  [[nodiscard]] Verdict judge(std::uint64_t cut, Bytes image, bool is_torn) const;

 private:
  struct Range {
    std::size_t oldest = 0;  // versions of a slice
    std::size_t newest = 0;
  };
  [[nodiscard]] static Range possible(const PartHistory& part, const PartHistory::Slice& slice,
                                      std::uint64_t cut);
  [[nodiscard]] bool is_any(const PartHistory::Slice& slice, Range range, Bytes image,
                            std::size_t from, std::size_t size) const;

  const CipherSpec spec_;
  std::vector<PartHistory> parts_;
  std::mutex mutex_;
  struct Flush {
    std::uint64_t called = 0;
    std::uint64_t returned = 0;
  };
  std::vector<Flush> flushes_;  // guarded by mutex_ until close()
};

}  // namespace cryptimg::test
