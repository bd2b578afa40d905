// SPDX-License-Identifier: GPL-3.0-or-later
//
// Secret: key bytes in a libsodium guarded allocation (guard pages, locked into memory where
// RLIMIT_MEMLOCK allows, out of core dumps), zeroed when destroyed. Move-only: there is exactly one
// owner. Reading is safe from several threads; writing is for the one that made it.
// A child of a fork finds zeros in it, and must destroy none: make secrets that it needs after it.
#pragma once

#include <cstddef>

#include "core/bytes.h"
#include "core/result.h"

namespace cryptimg {

class Secret {
 public:
  // `size_bytes` zeroed bytes. out_of_memory where the guarded allocation fails.
  static Result<Secret> allocate(std::size_t size_bytes);
  // A guarded copy of `source`; the caller still has to wipe its own.
  static Result<Secret> copy_of(Bytes source);

  Secret() = default;
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  [[nodiscard]] std::size_t size() const { return size_bytes_; }
  [[nodiscard]] bool empty() const { return size_bytes_ == 0; }
  [[nodiscard]] Bytes bytes() const { return {data_, size_bytes_}; }
  [[nodiscard]] MutableBytes mutable_bytes() { return {data_, size_bytes_}; }
  // The same bytes as the C APIs (libcryptsetup, OpenSSL) want them.
  [[nodiscard]] const char* chars() const { return reinterpret_cast<const char*>(data_); }

  // Forgets all but the first `size_bytes`, zeroing the rest. REQUIRES: size_bytes <= size().
  void shrink(std::size_t size_bytes);

  // False where some Secret of this process could not be locked (RLIMIT_MEMLOCK too small): key
  // bytes may then reach swap, which the caller should warn about.
  static bool all_locked();

 private:
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

// Zeroes memory that held plaintext or key material, in a way no compiler removes.
void wipe(MutableBytes memory);
// Zeroes so much of the stack below the caller's frame: what functions it called have left there.
void wipe_stack(std::size_t size_bytes);

}  // namespace cryptimg
