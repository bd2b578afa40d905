// SPDX-License-Identifier: GPL-3.0-or-later
//
// Janitor: a tiny process beside the daemon that can still unmount when the daemon cannot: on
// request, and when the daemon has died. Forked before there is any secret; it holds neither the
// container nor /dev/fuse, which would keep lock and mount alive. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <sys/types.h>

#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

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

  // From now on the mount with this device number is ours: it is unmounted when the daemon dies.
  Status watch(std::uint32_t device_major, std::uint32_t device_minor);
  // Unmounts what is watched. Ok where it is gone already; busy where something holds it or
  // another file system is mounted over it; unavailable where the janitor is gone.
  Status unmount(bool lazy);

 private:
  Janitor(UniqueFd socket, pid_t process) : socket_(std::move(socket)), process_(process) {}

  UniqueFd socket_;
  pid_t process_;
};

}  // namespace cryptimg
