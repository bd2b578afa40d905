// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the command line says, as plain values: filled by cli.cc and mount_options.cc, read by the
// commands. Value types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/block_device.h"
#include "core/container.h"

namespace cryptimg {

// `mount`. Paths are as the user gave them, relative ones to the folder the command started in.
struct MountOptions {
  std::string container;
  std::string mountpoint;
  bool read_only = false;
  std::optional<std::string> key_file;  // "-": all of stdin
  std::optional<std::string> header;
  std::optional<int> keyslot;     // only this one is tried
  bool allow_costly_kdf = false;  // derive keys whatever the header asks for
  // What the header must say, or it is not this container.
  std::optional<std::string> require_cipher;
  std::optional<std::string> uuid;
  std::string engine = "auto";
  bool offload_by_sector = false;             // engine afalg: an operation for each sector
  std::optional<unsigned> workers;            // default: cores - 1, the session threads cipher too
  std::uint32_t max_read_size_bytes = 0;      // 0: 1048576
  std::uint32_t max_write_size_bytes = 0;     // 0: 1048576
  bool coalesce = true;                       // requests that are queued together become one extent
  std::uint32_t max_extent_bytes = 1U << 20;  // of which at most so long
  std::uint32_t readahead_bytes = 8U << 20;   // memory for reading ahead; 0: off
  BackingIo backing_io = BackingIo::automatic;
  bool foreground = false;              // no daemon; the log goes to stderr
  bool sandbox = true;                  // see fuse/sandbox.h
  std::optional<std::string> log_file;  // instead of syslog
  std::string log_level = "info";
  // From -o; see fuse(8). Without uid, gid and umask the image is the mounting user's alone.
  bool allow_other = false;  // also turns default_permissions on
  bool allow_root = false;
  bool default_permissions = false;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<mode_t> umask;
};

// `create`: what core/ needs, and where the command gets passphrase and content from.
struct CreateCommandOptions {
  CreateOptions create;
  std::optional<std::string> key_file;
  std::optional<std::string> from;  // encrypt this file's content into the new container
};

// `umount`: every target is tried, the worst exit code is the command's.
struct UmountOptions {
  std::vector<std::string> targets;  // mount points or containers
  bool lazy = false;                 // detach now, end when the last user has let go
};

// `lock`: a mount point or container.
struct LockOptions {
  std::string target;
  bool holds = false;  // requests wait for unlock, instead of failing
};

// `unlock`. Of `mount` the key file, keyslot, header and allow_costly_kdf are the user's.
struct UnlockOptions {
  std::string target;
  MountOptions mount;
};

}  // namespace cryptimg
