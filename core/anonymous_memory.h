// SPDX-License-Identifier: GPL-3.0-or-later
//
// AnonymousMemory: a large block of memory for plaintext, owned. Starts at a huge page's boundary
// and is backed by huge pages where the kernel has any: the kernel pins the pages of a buffer one
// by one for each request it copies, which costs as much as the copy where they are small ones.
// Left out of core dumps, zeroed when it goes. Any thread may use the bytes.
#pragma once

#include <cstddef>

#include "core/bytes.h"
#include "core/result.h"

namespace cryptimg {

class AnonymousMemory {
 public:
  // Zeroed, a multiple of pages, taking real memory only where touched. out_of_memory where mmap
  // fails, invalid_argument for a size of 0.
  static Result<AnonymousMemory> create(std::size_t size_bytes);
  AnonymousMemory() = default;
  AnonymousMemory(AnonymousMemory&& other) noexcept;
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept;
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;
  ~AnonymousMemory();

  [[nodiscard]] MutableBytes bytes() const { return bytes_; }

 private:
  std::byte* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  MutableBytes bytes_;  // the part of the mapping that is handed out
};

}  // namespace cryptimg
