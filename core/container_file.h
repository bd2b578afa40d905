// SPDX-License-Identifier: GPL-3.0-or-later
//
// Opening and locking the file or block device that a container lies in. A file is opened once;
// whoever else needs it (libcryptsetup) reopens that same inode through proc_path().
//
// The lock is the kernel's open file description lock (fcntl(2), F_OFD_SETLK) on the whole data
// file: it belongs to the descriptor, so it survives fork and ends with the last copy; it counts
// for the inode, so hard links and symlinks do not get around it; and it is another kind than the
// flock that libcryptsetup takes while it edits a header, so `cryptsetup luksAddKey` keeps working.
// A loop device is locked together with what lies under it, which it is but another name of.
// Pure system calls, no state: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

struct ContainerFile {
  UniqueFd fd;
  bool is_device = false;
  std::uint64_t size_bytes = 0;
  // Identity of the file: two opens of the same container compare equal.
  dev_t device_id = 0;
  ino_t inode = 0;
  // Of a loop device: its backing file, that one's if it is a loop device too, and so on; open for
  // their locks' sake only. Empty until locked.
  std::vector<UniqueFd> backing;

  [[nodiscard]] bool same_file_as(const ContainerFile& other) const {
    return device_id == other.device_id && inode == other.inode;
  }
};

enum class FileAccess : std::uint8_t {
  read,       // O_RDONLY
  exclusive,  // O_RDWR, and O_EXCL on a block device: no mount, no device-mapper, no other O_EXCL
};

// Opens a regular file or block device; symlinks are followed. Takes no lock. not_found,
// permission, read_only, busy (a block device in use), unsupported (neither file nor block device).
Result<ContainerFile> open_container_file(const std::string& path, FileAccess access);

// Takes the lock: exclusive or, with FileAccess::read, shared. Does not wait: busy where a
// conflicting one is held, or, for exclusive, where a loop device has the file as its backing file.
// What backs a loop device is locked too, where the caller can open it by the name sysfs gives.
Status lock_container_file(ContainerFile& file, const std::string& path, FileAccess access);

// The loop device ("/dev/loop3") whose backing file has this identity. Found by asking the device,
// or where that is not permitted by the path in sysfs.
std::optional<std::string> loop_device_on(dev_t device_id, ino_t inode);

// A path that opens the inode behind `fd`, whatever has become of its name.
std::string proc_path(int fd);

// The exact transfer of `size` bytes, retrying EINTR and short transfers. The end of the file is
// io.
Status read_exactly(int fd, void* target, std::size_t size, std::uint64_t offset_bytes);
Status write_exactly(int fd, const void* source, std::size_t size, std::uint64_t offset_bytes);

}  // namespace cryptimg
