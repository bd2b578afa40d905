// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mountpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

constexpr std::chrono::seconds kClaimPatience{10};
constexpr std::chrono::milliseconds kClaimInterval{10};

// What is mounted there, or nothing: the topmost of ours.
Result<std::optional<MountEntry>> find_mounted_on(const std::string& mountpoint) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, list_mounts());
  const auto found = std::find_if(mounts.rbegin(), mounts.rend(), [&](const MountEntry& entry) {
    return entry.mountpoint == mountpoint;
  });
  return found != mounts.rend() ? std::optional(*found) : std::nullopt;
}

tl::unexpected<Error> already_mounted(const std::string& mountpoint) {
  return fail(Errc::busy, mountpoint + " already has an image mounted on it; unmount that first");
}

// Unmounts what a killed daemon left on `mountpoint`; busy where a living one serves there.
Status clear_dead_mount(const std::string& mountpoint) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::optional<MountEntry> ours, find_mounted_on(mountpoint));
  if (!ours) {
    return {};
  }
  if (!is_dead(*ours)) {
    return already_mounted(mountpoint);
  }
  Status status = unmount(mountpoint, true);
  if (!status && status.error().code == Errc::not_found) {
    return {};  // a janitor was quicker
  }
  return status;
}

}  // namespace

Result<std::string> absolute_path(const std::string& path) {
  std::array<char, PATH_MAX> resolved{};
  if (::realpath(path.c_str(), resolved.data()) == nullptr) {
    return fail_errno(errno, "cannot find " + path);
  }
  return std::string(resolved.data());
}

Result<Mountpoint> prepare_mountpoint(const std::string& given, const std::string& container) {
  Mountpoint result;
  auto resolved = absolute_path(given);
  if (!resolved) {
    if (resolved.error().code == Errc::not_found) {
      resolved.error().message += "; create the mount point first, with mkdir";
    }
    return tl::unexpected(std::move(resolved.error()));
  }
  result.path = std::move(*resolved);
  if (result.path == "/") {
    return fail(Errc::invalid_argument, "the root folder cannot be a mount point");
  }
  CRYPTIMG_RETURN_IF_ERROR(clear_dead_mount(result.path));
  struct stat attributes = {};
  if (::stat(result.path.c_str(), &attributes) != 0) {
    return fail_errno(errno, "cannot use the mount point " + given);
  }
  if (!S_ISDIR(attributes.st_mode) && !S_ISREG(attributes.st_mode)) {
    return fail(Errc::unsupported,
                "the mount point " + given + " is neither a folder nor a regular file");
  }
  result.is_file = S_ISREG(attributes.st_mode);
  struct stat data = {};
  if (::stat(container.c_str(), &data) == 0 && data.st_dev == attributes.st_dev &&
      data.st_ino == attributes.st_ino) {
    return fail(Errc::invalid_argument, "the container cannot be its own mount point");
  }
  return result;
}

Result<UniqueFd> claim_mountpoint(const std::string& path) {
  UniqueFd claim(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const auto deadline = std::chrono::steady_clock::now() + kClaimPatience;
  while (claim.valid() && ::flock(claim.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      claim.reset();
    } else if (std::chrono::steady_clock::now() > deadline) {
      return fail(Errc::busy, "another program holds a lock on the mount point " + path);
    } else {
      std::this_thread::sleep_for(kClaimInterval);
    }
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const std::optional<MountEntry> mounted, find_mounted_on(path));
  if (mounted) {
    return already_mounted(path);
  }
  return claim;
}

}  // namespace cryptimg
