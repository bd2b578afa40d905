// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/container_file.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace cryptimg {
namespace {

constexpr std::string_view kDeletedSuffix = " (deleted)";
constexpr std::size_t kMaxLoopDepth = 8;

struct DirCloser {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// What sysfs names as the backing file of an attached loop device, given the device's folder there;
// empty for an idle one.
std::string backing_file_of(const std::string& folder) {
  std::ifstream file(folder + "/loop/backing_file", std::ios::binary);
  std::string path{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!path.empty() && path.back() == '\n') {
    path.pop_back();
  }
  return path;
}

bool path_is(const std::string& path, dev_t device_id, ino_t inode) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && info.st_dev == device_id && info.st_ino == inode;
}

bool loop_is_on(const std::string& loop_name, const std::string& backing_file, dev_t device_id,
                ino_t inode) {
  const UniqueFd loop(::open(("/dev/" + loop_name).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct loop_info64 status = {};
  if (loop.valid() && ::ioctl(loop.get(), LOOP_GET_STATUS64, &status) == 0) {
    return status.lo_device == device_id && status.lo_inode == inode;
  }
  if (path_is(backing_file, device_id, inode)) {
    return true;
  }
  // The name it was attached by is gone, but another may have taken its place since.
  return backing_file.ends_with(kDeletedSuffix) &&
         path_is(backing_file.substr(0, backing_file.size() - kDeletedSuffix.size()), device_id,
                 inode);
}

int try_lock(int fd, FileAccess access) {
  struct flock range = {};
  range.l_type = access == FileAccess::read ? F_RDLCK : F_WRLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

bool is_conflict(int lock_errno) {
  return lock_errno == EAGAIN || lock_errno == EACCES;
}

// What backs the loop device, or the one that has it as a partition, behind `fd`. Invalid where it
// is no loop device, or its backing file is not to be had here.
UniqueFd open_backing(int fd, FileAccess access) {
  struct stat status = {};
  struct loop_info64 loop = {};
  if (::fstat(fd, &status) != 0 || !S_ISBLK(status.st_mode) ||
      ::ioctl(fd, LOOP_GET_STATUS64, &loop) != 0) {
    return {};
  }
  const std::string folder = "/sys/dev/block/" + std::to_string(major(status.st_rdev)) + ":" +
                             std::to_string(minor(status.st_rdev));
  std::string path = backing_file_of(folder);
  if (path.empty()) {
    path = backing_file_of(folder + "/..");
  }
  if (!path_is(path, loop.lo_device, loop.lo_inode)) {
    return {};
  }
  constexpr int kFlags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd backing;
  if (access == FileAccess::exclusive) {
    backing.reset(::open(path.c_str(), O_RDWR | kFlags));
  }
  if (!backing.valid()) {
    backing.reset(::open(path.c_str(), O_RDONLY | kFlags));
  }
  return backing;
}

// Whether nobody else is in the way; then locked as far as its mode allows.
bool lock_backing(int fd, FileAccess access) {
  const int error = try_lock(fd, access);
  if (error != EBADF) {
    return !is_conflict(error);
  }
  // Open for reading only, which is enough to ask, and to keep writers out.
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK) {
    return false;
  }
  return !is_conflict(try_lock(fd, FileAccess::read));
}

Status lock_all_backing(ContainerFile& file, const std::string& path, FileAccess access) {
  int upper = file.fd.get();
  while (file.backing.size() < kMaxLoopDepth) {
    UniqueFd backing = open_backing(upper, access);
    if (!backing.valid()) {
      break;
    }
    if (!lock_backing(backing.get(), access)) {
      return fail(Errc::busy, path + " is a loop device on a file that is already mounted");
    }
    upper = backing.get();
    file.backing.push_back(std::move(backing));
  }
  return {};
}

}  // namespace

std::string proc_path(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

Result<ContainerFile> open_container_file(const std::string& path, FileAccess access) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    return fail_errno(errno, "cannot open " + path);
  }
  const bool is_device = S_ISBLK(info.st_mode);
  // Checked before the open, since opening a FIFO would wait; and after it, since names can change.
  if (!is_device && !S_ISREG(info.st_mode)) {
    return fail(Errc::unsupported, path + " is neither a regular file nor a block device");
  }
  int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  flags |= access == FileAccess::read ? O_RDONLY : O_RDWR;
  if (is_device && access == FileAccess::exclusive) {
    flags |= O_EXCL;
  }
  ContainerFile file;
  file.fd.reset(::open(path.c_str(), flags));
  if (!file.fd.valid()) {
    const int error = errno;
    if (error == EBUSY) {
      return fail(Errc::busy, path + " is in use by a mount or another program", error);
    }
    return fail_errno(error, access == FileAccess::read
                                 ? "cannot open " + path
                                 : "cannot open " + path + " for reading and writing");
  }
  if (::fstat(file.fd.get(), &info) != 0) {
    return fail_errno(errno, "cannot examine " + path);
  }
  if (S_ISBLK(info.st_mode) != is_device || (!is_device && !S_ISREG(info.st_mode))) {
    return fail(Errc::busy, path + " was replaced while it was being opened");
  }
  file.is_device = is_device;
  file.device_id = is_device ? info.st_rdev : info.st_dev;
  file.inode = is_device ? 0 : info.st_ino;
  file.size_bytes = static_cast<std::uint64_t>(std::max<off_t>(info.st_size, 0));
  if (is_device && ::ioctl(file.fd.get(), BLKGETSIZE64, &file.size_bytes) != 0) {
    return fail_errno(errno, "cannot tell the size of " + path);
  }
  return file;
}

Status lock_container_file(ContainerFile& file, const std::string& path, FileAccess access) {
  if (const int error = try_lock(file.fd.get(), access); error != 0) {
    if (is_conflict(error)) {
      return fail(Errc::busy,
                  path + (access == FileAccess::read ? " is already mounted for writing"
                                                     : " is already mounted"),
                  error);
    }
    return fail_errno(error, "cannot lock " + path);
  }
  if (access == FileAccess::exclusive && !file.is_device) {
    if (const auto loop = loop_device_on(file.device_id, file.inode)) {
      return fail(Errc::busy, path + " is attached to " + *loop +
                                  ": detach that first (losetup -d " + *loop + ")");
    }
  }
  return lock_all_backing(file, path, access);
}

std::optional<std::string> loop_device_on(dev_t device_id, ino_t inode) {
  const std::unique_ptr<DIR, DirCloser> blocks(::opendir("/sys/block"));
  while (blocks != nullptr) {
    const dirent* entry = ::readdir(blocks.get());
    if (entry == nullptr) {
      break;
    }
    const std::string name = entry->d_name;
    if (!name.starts_with("loop")) {
      continue;
    }
    const std::string backing_file = backing_file_of("/sys/block/" + name);
    if (!backing_file.empty() && loop_is_on(name, backing_file, device_id, inode)) {
      return "/dev/" + name;
    }
  }
  return std::nullopt;
}

Status read_exactly(int fd, void* target, std::size_t size, std::uint64_t offset_bytes) {
  auto* bytes = static_cast<char*>(target);
  while (size > 0) {
    const ssize_t got = ::pread(fd, bytes, size, static_cast<off_t>(offset_bytes));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail_errno(errno, "read error");
    }
    if (got == 0) {
      return fail(Errc::io, "unexpected end of file");
    }
    bytes += got;
    size -= static_cast<std::size_t>(got);
    offset_bytes += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status write_exactly(int fd, const void* source, std::size_t size, std::uint64_t offset_bytes) {
  const auto* bytes = static_cast<const char*>(source);
  while (size > 0) {
    const ssize_t put = ::pwrite(fd, bytes, size, static_cast<off_t>(offset_bytes));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put < 0) {
      return fail_errno(errno, "write error");
    }
    bytes += put;
    size -= static_cast<std::size_t>(put);
    offset_bytes += static_cast<std::uint64_t>(put);
  }
  return {};
}

}  // namespace cryptimg
