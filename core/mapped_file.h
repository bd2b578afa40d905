// SPDX-License-Identifier: GPL-3.0-or-later
//
// MappedFile: the data segment of a container as memory, so that it is decrypted straight out of
// the page cache, without a copy in between.
//
// What lies behind a mapping may go: a truncated file, a failing disk or a vanished device arrive
// as SIGBUS. The handler puts a page of zeros where the fault was, marks the mapping broken and
// returns, so nobody's code is left half-way; who was reading then finds out with still_valid(),
// and reads the ordinary way, which knows the error. A broken mapping is not used again.
//
// Thread-safe. Threads that read views must have SIGBUS unblocked (block_signals() leaves it so).
#pragma once

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/bytes.h"

namespace cryptimg {

class MappedFile {
 public:
  // Maps [offset, offset + size) of `fd`, which must stay open as long as this lives. Nothing where
  // that cannot be, or would not pay: no address space, too many mappings, a system that does not
  // tell which pages are in memory.
  static std::unique_ptr<MappedFile> create(int fd, std::uint64_t offset_bytes,
                                            std::uint64_t size_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // The bytes of a range whose pages are all in memory; empty where one is not (reading it would
  // wait for the disk, page by page) or the mapping is broken. REQUIRES: inside the segment.
  [[nodiscard]] Bytes view(std::uint64_t offset_bytes, std::size_t length_bytes) const noexcept;
  // Whether all that was read from views until now was the file's content. A page that the end of
  // a shortened file cuts reads as zeros without a fault: the caller checks the size.
  [[nodiscard]] bool still_valid() const noexcept;

 private:
  MappedFile(std::byte* mapping, std::size_t mapping_bytes, std::size_t skipped_bytes);
  static void on_sigbus(int signal, siginfo_t* info, void* context);
  static bool install_handler();
  static void break_at(MappedFile& mapping, void* address) noexcept;

  std::byte* const mapping_;
  const std::size_t mapping_bytes_;
  const std::size_t skipped_bytes_;          // from the mapping's start to the segment's
  mutable std::atomic<unsigned> broken_{0};  // 1 once a page was lost
};

// Blocks all signals for the calling thread but those that its own instructions and system calls
// raise: blocked, they would end the process.
void block_signals() noexcept;

}  // namespace cryptimg
