// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which containers are mounted where, from /proc/self/mountinfo (type fuse.cryptimg, source the
// container's absolute path). No state file. Pure reading, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "core/result.h"

namespace cryptimg {

struct MountEntry {
  int mount_id = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;  // names the mount's control socket
  std::string mountpoint;          // unescaped
  std::string container;           // unescaped source
  std::string type;
  std::string options;  // per mount and per superblock, joined by a comma
  uid_t owner = 0;      // user_id=
  bool read_only = false;
};

// Parses the text of a mountinfo file: every entry whose type is fuse.cryptimg. Octal escapes
// (\040 ...) are undone. Malformed lines are passed over.
std::vector<MountEntry> parse_mountinfo(std::string_view text);
// The same for every entry, whatever its type (container is then the source).
std::vector<MountEntry> parse_all_mounts(std::string_view text);
// The whole of a file of /proc or /sys, which have no size to ask for first.
Result<std::string> read_proc_file(const std::string& path);
Result<std::vector<MountEntry>> list_mounts();

// The mounts that `target` names: as a mount point, else as MOUNTPOINT/image, else as a container
// (the path it was mounted by, or what is the same file as that path by device and inode). Works on
// a dead mount (ENOTCONN). The path may name another file by now than the one that is served: then
// what was mounted by either name is found.
std::vector<MountEntry> find_mounts(const std::vector<MountEntry>& mounts,
                                    const std::string& target);

// Those of `mounts` whose container is `container`, by path or by what is that file now.
std::vector<MountEntry> mounts_of_container(const std::vector<MountEntry>& mounts,
                                            const std::string& container);

// Whether the kernel has no daemon for it any more. Asks for the daemon first, since a mount whose
// requests are held (lock --hold) answers nothing; that none is found is no proof, it may live in
// another network namespace, so then the mount itself is asked.
bool is_dead(const MountEntry& mount);

// The path of the image in it. Asks the mount.
std::string image_path(const MountEntry& mount);

// Someone who keeps a mount busy, as one phrase: "process 1234 (dd)", "loop device /dev/loop3
// (mounted on /srv)". Sees what the caller may see.
std::vector<std::string> find_holders(const MountEntry& mount);

// Unmounts as the calling user may: umount2 where privileged, else fusermount3. Not lazy unless
// asked. busy where something holds it.
Status unmount(const std::string& mountpoint, bool lazy);

}  // namespace cryptimg
