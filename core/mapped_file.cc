// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/mapped_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryptimg {
namespace {

// All mappings of the process, for the handler: it may neither lock nor allocate.
constexpr std::size_t kMaxMappings = 16;
std::array<std::atomic<MappedFile*>, kMaxMappings> mappings{};
struct sigaction previous_action {};

std::size_t page_bytes() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// mincore(2) tells the truth only to who could write the file or owns it, else all is "in memory".
bool tells_residency(int fd) {
  struct stat status {};
  const int flags = ::fcntl(fd, F_GETFL);
  return ::fstat(fd, &status) == 0 && flags >= 0 &&
         ((flags & O_ACCMODE) != O_RDONLY || status.st_uid == ::geteuid() || ::geteuid() == 0);
}

}  // namespace

std::unique_ptr<MappedFile> MappedFile::create(int fd, std::uint64_t offset_bytes,
                                               std::uint64_t size_bytes) {
  static const bool has_handler = install_handler();
  const std::size_t skipped = offset_bytes % page_bytes();
  if (!has_handler || size_bytes == 0 || size_bytes > std::numeric_limits<std::size_t>::max() / 2 ||
      !tells_residency(fd)) {
    return nullptr;
  }
  const std::size_t total = static_cast<std::size_t>(size_bytes) + skipped;
  void* const memory = ::mmap(nullptr, total, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
                              static_cast<off_t>(offset_bytes - skipped));
  if (memory == MAP_FAILED) {
    return nullptr;
  }
  // Pages that go while they are read come back one by one, not with neighbours nobody asked for.
  (void)::madvise(memory, total, MADV_RANDOM);
  (void)::madvise(memory, total, MADV_DONTDUMP);
  std::unique_ptr<MappedFile> mapping(
      new MappedFile(static_cast<std::byte*>(memory), total, skipped));
  const bool is_listed = std::any_of(mappings.begin(), mappings.end(), [&](auto& place) {
    MappedFile* expected = nullptr;
    return place.compare_exchange_strong(expected, mapping.get());
  });
  return is_listed ? std::move(mapping) : nullptr;
}

MappedFile::MappedFile(std::byte* mapping, std::size_t mapping_bytes, std::size_t skipped_bytes)
    : mapping_(mapping), mapping_bytes_(mapping_bytes), skipped_bytes_(skipped_bytes) {}

MappedFile::~MappedFile() {
  for (auto& place : mappings) {
    MappedFile* expected = this;
    place.compare_exchange_strong(expected, nullptr);
  }
  ::munmap(mapping_, mapping_bytes_);
}

Bytes MappedFile::view(std::uint64_t offset_bytes, std::size_t length_bytes) const noexcept {
  constexpr std::size_t kMaxPages = 512;
  std::array<unsigned char, kMaxPages> in_memory;
  const std::size_t begin = skipped_bytes_ + static_cast<std::size_t>(offset_bytes);
  const std::size_t first = begin - begin % page_bytes();
  const std::size_t pages = (begin + length_bytes - first + page_bytes() - 1) / page_bytes();
  if (broken_.load() != 0 || pages > kMaxPages ||
      ::mincore(mapping_ + first, begin + length_bytes - first, in_memory.data()) != 0) {
    return {};
  }
  const bool all = std::all_of(in_memory.cbegin(), in_memory.cbegin() + pages,
                               [](unsigned char page) { return (page & 1U) != 0; });
  return all ? Bytes(mapping_ + begin, length_bytes) : Bytes();
}

bool MappedFile::still_valid() const noexcept {
  // As a release it comes after what was read before; the handler set it before it put the zeros
  // there.
  return broken_.fetch_add(0, std::memory_order_acq_rel) == 0;
}

bool MappedFile::install_handler() {
  struct sigaction action = {};
  action.sa_sigaction = &MappedFile::on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigfillset(&action.sa_mask);
  (void)page_bytes();  // not for the first time in the handler
  return ::sigaction(SIGBUS, &action, &previous_action) == 0;
}

void MappedFile::on_sigbus(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int saved_errno = errno;
  const auto* const address = static_cast<std::byte*>(info->si_addr);
  for (auto& place : mappings) {
    MappedFile* const mapping = place.load();
    if (mapping != nullptr && address >= mapping->mapping_ &&
        address < mapping->mapping_ + mapping->mapping_bytes_) {
      break_at(*mapping, info->si_addr);
      errno = saved_errno;
      return;
    }
  }
  // Not ours: whoever handled it before meets it again.
  ::sigaction(SIGBUS, &previous_action, nullptr);
  errno = saved_errno;
}

void MappedFile::break_at(MappedFile& mapping, void* address) noexcept {
  mapping.broken_.store(1);
  const auto distance =
      static_cast<std::size_t>(static_cast<std::byte*>(address) - mapping.mapping_);
  std::byte* const page = mapping.mapping_ + (distance - distance % page_bytes());
  // By number: only the bare call is safe in a handler, whatever stands in front of mmap().
#ifdef SYS_mmap2
  constexpr long kMmap = SYS_mmap2;
#else
  constexpr long kMmap = SYS_mmap;
#endif
  if (::syscall(kMmap, page, page_bytes(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) == -1) {
    // No memory even for that: the fault would come again for ever.
    ::signal(SIGBUS, SIG_DFL);
  }
}

void block_signals() noexcept {
  sigset_t blocked;
  ::sigfillset(&blocked);
  for (const int raised : {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) {
    ::sigdelset(&blocked, raised);
  }
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

}  // namespace cryptimg
