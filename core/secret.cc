// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/secret.h"

#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <sodium.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cryptimg {
namespace {

std::atomic<bool> every_secret_locked{true};

// A child of a fork finds zeros there, and no copy of a key outlives ours in it. sodium_malloc's
// pages are its own, so nothing else of the child is lost.
void hide_from_children(void* memory, std::size_t size_bytes) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t lead_bytes = start % page_bytes;
  ::madvise(static_cast<std::byte*>(memory) - lead_bytes, size_bytes + lead_bytes, MADV_WIPEONFORK);
}

}  // namespace

Result<Secret> Secret::allocate(std::size_t size_bytes) {
  if (size_bytes == 0) {
    return Secret();
  }
  // Safe to call again and from several threads; the first call does the work.
  if (sodium_init() < 0) {
    return fail(Errc::unavailable, "libsodium cannot be initialised");
  }
  void* memory = sodium_malloc(size_bytes);
  if (memory == nullptr) {
    return fail(Errc::out_of_memory,
                "no guarded memory for " + std::to_string(size_bytes) + " bytes of key material",
                ENOMEM);
  }
  // sodium_malloc locks too, but keeps to itself whether that worked. Locking the same pages again
  // is harmless: locks do not nest, and sodium_free undoes them once.
  if (sodium_mlock(memory, size_bytes) != 0) {
    every_secret_locked.store(false, std::memory_order_relaxed);
  }
  hide_from_children(memory, size_bytes);
  std::memset(memory, 0, size_bytes);
  Secret secret;
  secret.data_ = static_cast<std::byte*>(memory);
  secret.size_bytes_ = size_bytes;
  return secret;
}

Result<Secret> Secret::copy_of(Bytes source) {
  CRYPTIMG_ASSIGN_OR_RETURN(Secret copy, allocate(source.size()));
  if (!source.empty()) {
    std::memcpy(copy.data_, source.data(), source.size());
  }
  return copy;
}

Secret::Secret(Secret&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    sodium_free(data_);
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

// sodium_free zeroes the memory first, and accepts a null pointer.
Secret::~Secret() {
  sodium_free(data_);
}

void Secret::shrink(std::size_t size_bytes) {
  assert(size_bytes <= size_bytes_);
  if (size_bytes < size_bytes_) {
    sodium_memzero(data_ + size_bytes, size_bytes_ - size_bytes);
    size_bytes_ = size_bytes;
  }
}

bool Secret::all_locked() {
  return every_secret_locked.load(std::memory_order_relaxed);
}

void wipe(MutableBytes memory) {
  if (!memory.empty()) {
    sodium_memzero(memory.data(), memory.size());
  }
}

void wipe_stack(std::size_t size_bytes) {
  sodium_stackzero(size_bytes);
}

}  // namespace cryptimg
