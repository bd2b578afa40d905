// SPDX-License-Identifier: GPL-3.0-or-later
//
// The process behind a mount, from the passphrase to the last flush. Runs in a process of its own
// (mount_command.cc forks it before there is any secret) or, in the foreground, in the command's.
//
// Threads: the main one waits for signals and the end of the mount; the session's threads take and
// cipher requests; the image's workers help them; the control thread answers `status`. The janitor
// is a process beside it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "fuse/exit_code.h"
#include "fuse/options.h"

namespace cryptimg {

// After SIGTERM, how long a held image is still served, and how often unmounting is tried.
inline constexpr std::chrono::seconds kHeldPatience{60};
inline constexpr std::chrono::milliseconds kUnmountInterval{200};
// How long a forced end waits for requests that are being handled.
inline constexpr std::chrono::seconds kStuckPatience{10};

struct DaemonPlan {
  MountOptions options;
  std::string container;   // absolute, no symlinks
  std::string mountpoint;  // absolute, no symlinks
  bool mountpoint_is_file = false;
};

// What whoever runs the daemon does when I/O works. Both are given the container's sector size.
struct DaemonHooks {
  // While files can still be opened; from now on failures are logged. What fails here ends the
  // mount.
  std::function<Status(std::uint32_t sector_size_bytes)> on_serving;
  // In the sandbox: only what is open can be used.
  std::function<void(std::uint32_t sector_size_bytes)> on_ready;
};

// Opens, unlocks, mounts and serves until the mount is gone. Until on_serving failures are printed
// on stderr. Returns the exit code: device where the last flush failed. REQUIRES: one thread, no
// secret yet.
ExitCode run_daemon(const DaemonPlan& plan, const DaemonHooks& hooks);

}  // namespace cryptimg
