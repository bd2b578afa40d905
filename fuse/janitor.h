// SPDX-License-Identifier: GPL-3.0-or-later
//
// Janitor: a tiny process beside the daemon that does what the daemon in its sandbox cannot:
// unmount, on request and when the daemon has died, and look who holds the mount. Forked before
// there is any secret; it holds neither the container nor /dev/fuse, which would keep lock and
// mount alive. Used by one thread.
//
// The janitor may be killed. It cannot be had again, since a fork would now copy the key; so from
// then on nobody unmounts for a killed daemon, and unmount() works in the calling process, or,
// where that is in the sandbox, not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

// What a janitor answers for.
struct WatchedMount {
  std::string mountpoint;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;  // 0: nothing is mounted yet
};

class Janitor {
 public:
  // Forks the process for what will be mounted on `mountpoint` (absolute). REQUIRES: the calling
  // process has one thread and holds no secret.
  static Result<std::unique_ptr<Janitor>> start(const std::string& mountpoint);
  // Lets the janitor go and waits for its end; a mount that watch() named and that is still there
  // is unmounted lazily by it.
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  // For poll(2), with no events asked for: POLLHUP when the janitor is gone.
  [[nodiscard]] int gone_fd() const { return socket_.get(); }
  // From now on the mount with this device number is ours: it is unmounted when the daemon dies.
  // unavailable where the janitor is gone.
  Status watch(std::uint32_t device_major, std::uint32_t device_minor);
  // The calling process can do nothing of the janitor's work itself from now on.
  void rely_on_janitor() { has_fallback_ = false; }
  // Unmounts what is watched. Ok where it is gone already; busy where something holds it or
  // another file system is mounted over it; unavailable where the janitor is gone and there is no
  // fallback.
  Status unmount(bool lazy);
  // find_holders() of mount_table.h for what is watched, without daemon and janitor. Empty too
  // where it cannot be told.
  std::vector<std::string> holders();

 private:
  Janitor(UniqueFd socket, pid_t process, const std::string& mountpoint)
      : socket_(std::move(socket)), process_(process), watched_{mountpoint} {}

  UniqueFd socket_;
  pid_t process_;
  WatchedMount watched_;
  bool has_fallback_ = true;
};

}  // namespace cryptimg
