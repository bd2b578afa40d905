// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/anonymous_memory.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "core/secret.h"

namespace cryptimg {
namespace {

constexpr std::size_t kHugePageBytes = 2U << 20;  // on the machines that have huge pages at all

}  // namespace

Result<AnonymousMemory> AnonymousMemory::create(std::size_t size_bytes) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto rounded = round_up(size_bytes, page_bytes);
  const auto total = rounded ? checked_add<std::uint64_t>(*rounded, kHugePageBytes) : std::nullopt;
  if (!total || *rounded == 0) {
    return fail(Errc::invalid_argument, "no block of memory has that size");
  }
  void* const mapping =
      ::mmap(nullptr, *total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return fail(Errc::out_of_memory, "no memory for " + std::to_string(*rounded) + " bytes", errno);
  }
  // Both fail only on kernels built without them. The daemon is not dumpable anyway.
  (void)::madvise(mapping, *total, MADV_DONTDUMP);
  (void)::madvise(mapping, *total, MADV_HUGEPAGE);
  AnonymousMemory memory;
  memory.mapping_ = static_cast<std::byte*>(mapping);
  memory.mapping_bytes_ = *total;
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::size_t skipped = (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
  memory.bytes_ = {memory.mapping_ + skipped, static_cast<std::size_t>(*rounded)};
  return memory;
}

AnonymousMemory::AnonymousMemory(AnonymousMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(std::exchange(other.mapping_bytes_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

AnonymousMemory& AnonymousMemory::operator=(AnonymousMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AnonymousMemory::~AnonymousMemory() {
  if (mapping_ != nullptr) {
    wipe(bytes_);
    ::munmap(mapping_, mapping_bytes_);
  }
}

}  // namespace cryptimg
