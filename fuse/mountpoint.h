// SPDX-License-Identifier: GPL-3.0-or-later
//
// What is checked about a mount point before anything is mounted on it. Single-threaded.
#pragma once

#include <string>

#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

struct Mountpoint {
  std::string path;  // absolute, no symlinks
  bool is_file = false;
};

// `path` without symlinks, from the root.
Result<std::string> absolute_path(const std::string& path);

// Resolves `given`, unmounts what a killed daemon left there, and says whether it is a folder or a
// regular file. not_found; busy where a living mount of ours is there; unsupported for what is
// neither folder nor file; invalid_argument for the root folder, and where it is the file
// `container` under whatever name.
Result<Mountpoint> prepare_mountpoint(const std::string& given, const std::string& container);

// Keeps other mounts by this program off `path` while the descriptor lives: two at once would be
// stacked, and neither could tell which is its own. It is a flock(2) on what lies there now,
// waited for within kClaimPatience. busy where something of ours is mounted there by then, or
// where the lock is not to be had; an invalid descriptor where there are no such locks.
Result<UniqueFd> claim_mountpoint(const std::string& path);

}  // namespace cryptimg
