// SPDX-License-Identifier: GPL-3.0-or-later
//
// The daemon takes its keys out; what the kernel has cached is dropped from here. Not by the daemon
// (notify_inval_inode): that waits for pages which the daemon itself has to fill, and a daemon
// killed meanwhile could never end.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/text.h"
#include "core/unique_fd.h"
#include "fuse/commands.h"
#include "fuse/mount_of_target.h"
#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

// Before Linux 5.16 closing the image waits for the daemon, and so for unlock.
Status check_can_hold() {
  constexpr int kMajor = 5;
  constexpr int kMinor = 16;
  utsname name = {};
  int major = 0;
  int minor = 0;
  if (::uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2 ||
      std::pair(major, minor) < std::pair(kMajor, kMinor)) {
    return fail(Errc::unsupported, "--hold needs Linux 5.16 or newer");
  }
  return {};
}

// How much of the image the kernel still has, in bytes. Takes no request of the mount.
std::size_t cached_bytes(int image, std::size_t size_bytes) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 30;
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t cached = 0;
  std::vector<unsigned char> pages(kPieceBytes / page_bytes);
  for (std::size_t at = 0; at < size_bytes; at += kPieceBytes) {
    const std::size_t length = std::min(kPieceBytes, size_bytes - at);
    void* const piece =
        ::mmap(nullptr, length, PROT_READ, MAP_SHARED, image, static_cast<off_t>(at));
    if (piece == MAP_FAILED) {
      continue;
    }
    const std::size_t count = (length + page_bytes - 1) / page_bytes;
    if (::mincore(piece, length, pages.data()) == 0) {
      for (std::size_t page = 0; page < count; ++page) {
        cached += (pages[page] & 1U) != 0 ? page_bytes : 0;
      }
    }
    ::munmap(piece, length);
  }
  return cached;
}

void warn_of_cache(const MountEntry& mount, const std::string& what) {
  std::fprintf(stderr, "cryptimg: %s is locked, but %s.\n", printable(mount.mountpoint).c_str(),
               what.c_str());
}

Status lock(const LockOptions& options) {
  if (options.holds) {
    CRYPTIMG_RETURN_IF_ERROR(check_can_hold());
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const MountEntry mount, mount_of_target(options.target));
  CRYPTIMG_ASSIGN_OR_RETURN(const MountState state, ask_state(mount));
  // The mount is not touched before: it may be held.
  if (state.locked != "no") {
    return fail(Errc::exists, mount.mountpoint + " is locked already");
  }
  const std::string path = image_path(mount);
  UniqueFd image(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const int open_error = errno;
  if (image.valid() && ::fsync(image.get()) != 0) {
    return fail_errno(errno,
                      "cannot flush " + mount.mountpoint + ", so it is not locked: unmount it");
  }
  CRYPTIMG_RETURN_IF_ERROR(ask_to_lock(mount, options.holds));
  if (!image.valid()) {
    warn_of_cache(mount, std::string("what the kernel has cached of it stays, since you cannot "
                                     "open it (") +
                             std::strerror(open_error) + "): lock it as its owner");
    return {};
  }
  if (!options.holds) {
    // This open drops what is mapped, too.
    image.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (image.valid()) {
    ::posix_fadvise(image.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  const std::size_t cached = image.valid() ? cached_bytes(image.get(), state.image_size_bytes) : 0;
  if (cached != 0) {
    warn_of_cache(mount, std::to_string(cached) +
                             " bytes of it stay in the kernel's cache, since programs use them");
  }
  return {};
}

}  // namespace

ExitCode run_lock(const LockOptions& options) {
  const Status locked = lock(options);
  return locked ? ExitCode::ok : report(locked.error());
}

}  // namespace cryptimg
