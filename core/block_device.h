// SPDX-License-Identifier: GPL-3.0-or-later
//
// BlockDevice: where the ciphertext lies. The data path sees nothing of files or descriptors, so
// tests put memory or a faulty device in its place.
//
// All functions may be called from any thread at once. Overlapping writes in flight are the
// caller's error (RangeLock orders them). Offsets count from the start of the data segment.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  // Fills all of `target` from `offset_bytes`. On failure target is unspecified; a range that the
  // device turns out not to have (truncated behind our back) is io.
  virtual Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept = 0;
  // The same bytes where they lie in memory, for reading without a copy; empty where they have to
  // be read. What was made of them counts only if view_held() says so afterwards.
  virtual Bytes view(std::uint64_t /*offset_bytes*/, std::size_t /*length_bytes*/) noexcept {
    return {};
  }
  // Whether a view of this range was the device's content until now. False: use read().
  virtual bool view_held(std::uint64_t /*offset_bytes*/, std::size_t /*length_bytes*/) noexcept {
    return false;
  }
  // Whether the device still has this range: false where its file was cut short, some milliseconds
  // (a tick of the kernel's clock) ago or earlier. For who answers from a copy that was made
  // before; cheap enough for each small read.
  virtual bool reaches(std::uint64_t /*offset_bytes*/, std::uint64_t /*length_bytes*/) noexcept {
    return true;
  }
  // Whether some of the range has to be fetched from a disk before it can be read, which is begun
  // here and not waited for. A hint: false where it is not known.
  virtual bool fetch_ahead(std::uint64_t /*offset_bytes*/,
                           std::uint64_t /*length_bytes*/) noexcept {
    return false;
  }
  // All of `source` is in the backing file's page cache, or on the device with direct I/O, on
  // return. On failure any part of it may have been written. Never makes the device longer.
  virtual Status write(std::uint64_t offset_bytes, Bytes source) noexcept = 0;
  // Everything written before the call is on stable storage on return.
  virtual Status flush() noexcept = 0;
  // Reserves space for a range without changing what it reads as. unsupported where it cannot be.
  virtual Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept = 0;
  // When the content last changed.
  virtual timespec modified_time() noexcept = 0;
};

// How a file device reads: with views of the page cache, to be taken where they are faster
// (automatic) or wherever the data is there (mapped); only by pread (buffered); or past the page
// cache (direct, which goes for writes too).
enum class BackingIo : std::uint8_t { automatic, mapped, buffered, direct };

// A device over [data_offset_bytes, data_offset_bytes + size_bytes) of an open file or block
// device. Owns the descriptor, and those in `kept`, which are only held as long (for their locks).
// Retries EINTR and finishes short transfers. `size_bytes` bounds the range that is served, whether
// or not the file is that long: outside it, and past the end of a file that is or became shorter,
// everything is io. REQUIRES: the end fits into off_t; not for BackingIo::direct.
std::unique_ptr<BlockDevice> make_file_device(UniqueFd file, std::uint64_t data_offset_bytes,
                                              std::uint64_t size_bytes,
                                              BackingIo io = BackingIo::automatic,
                                              std::vector<UniqueFd> kept = {});

// The same past the page cache, with O_DIRECT set on the descriptor: for transfers of whole sectors
// of `sector_size_bytes` to any address; those not page-aligned are copied through buffers of its
// own. unsupported where file system or device cannot do that in pieces so small; else as reading
// the first and last sector, which is the trial, fails.
Result<std::unique_ptr<BlockDevice>> make_direct_device(UniqueFd file,
                                                        std::uint64_t data_offset_bytes,
                                                        std::uint64_t size_bytes,
                                                        std::uint32_t sector_size_bytes,
                                                        std::vector<UniqueFd> kept = {});

}  // namespace cryptimg
