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

#include "core/container.h"

namespace cryptimg {

struct MountOptions {
  std::string container;   // as given
  std::string mountpoint;  // as given
  bool read_only = false;
  std::optional<std::string> key_file;  // "-": all of stdin
  std::optional<std::string> header;
  std::optional<int> keyslot;
  std::string engine = "auto";
  std::optional<unsigned> workers;         // default: cores - 1, the session threads cipher too
  std::uint32_t max_read_size_bytes = 0;   // 0: 131072
  std::uint32_t max_write_size_bytes = 0;  // 0: 131072
  bool foreground = false;
  std::optional<std::string> log_file;
  std::string log_level = "info";
  // From -o.
  bool allow_other = false;
  bool allow_root = false;
  bool default_permissions = false;
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  std::optional<mode_t> umask;
};

struct CreateCommandOptions {
  CreateOptions create;
  std::optional<std::string> key_file;
  std::optional<std::string> from;  // encrypt this file's content into the new container
};

struct UmountOptions {
  std::vector<std::string> targets;  // mount points or containers
  bool lazy = false;
};

}  // namespace cryptimg
