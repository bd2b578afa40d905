// SPDX-License-Identifier: GPL-3.0-or-later
//
// How `lock` and `unlock` find the one mount they are about, and talk to its daemon. Main thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "core/secret.h"
#include "fuse/mount_table.h"

namespace cryptimg {

// The mount that `target` names. not_found where there is none, busy where there are several.
Result<MountEntry> mount_of_target(const std::string& target);

// What a daemon says of its mount; see docs/json.md.
struct MountState {
  std::string locked;  // "no", "fail" or "hold"
  std::string uuid;
  std::string cipher;
  std::string header;  // empty where it is in the container
  std::uint64_t image_size_bytes = 0;
};

// Each asks the daemon; fails where it cannot be asked, and with what it answers as its error.
Result<MountState> ask_state(const MountEntry& mount);
Status ask_to_lock(const MountEntry& mount, bool holds);
Status hand_over_key(const MountEntry& mount, const Secret& key);

}  // namespace cryptimg
