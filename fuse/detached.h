// SPDX-License-Identifier: GPL-3.0-or-later
//
// Daemons that serve without a mount this process can see: unmounted lazily while in use, or
// mounted in another mount namespace. Found by their control sockets. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/container.h"
#include "core/result.h"
#include "fuse/mount_table.h"

namespace cryptimg {

struct DetachedDaemon {
  MountEntry mount;  // as it was; mount_id, type and options are not known
  pid_t pid = -1;
  std::string answer;  // to {"command":"status"}, see control.h
};

// Those of the calling user that are not in `mounts` and answer within two seconds each.
std::vector<DetachedDaemon> find_detached(const std::vector<MountEntry>& mounts);

// `error` as it is, unless it is busy: then with where `container` is mounted, or who holds it
// without a mount, if that is to be found.
Error say_where_mounted(Error error, const std::string& container);

// Container::open(), which waits a second for a container that is in use without being mounted
// anywhere: a killed daemon holds it until the kernel has taken the process down.
Result<Container> open_when_free(const OpenOptions& options);

}  // namespace cryptimg
