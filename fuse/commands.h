// SPDX-License-Identifier: GPL-3.0-or-later
//
// The commands, one file each (command_*.cc; mount is mount_command.cc). Each prints its result on
// stdout, one clear sentence on stderr where it fails, and returns its exit code. Run once, on the
// main thread.
#pragma once

#include <optional>
#include <string>

#include "fuse/exit_code.h"
#include "fuse/options.h"

namespace cryptimg {

ExitCode run_create(const CreateCommandOptions& options);
ExitCode run_mount(const MountOptions& options);
ExitCode run_umount(const UmountOptions& options);
ExitCode run_lock(const LockOptions& options);
ExitCode run_unlock(const UnlockOptions& options);
ExitCode run_status(const std::optional<std::string>& target, bool json);
ExitCode run_info(const std::string& container, const std::optional<std::string>& header,
                  bool json);
ExitCode run_engines(bool json);

// Prints an error as "cryptimg: <sentence>." on stderr, or with json as one object
// {"error": ..., "exit_code": ...}; control characters and invalid UTF-8 are escaped. Returns the
// exit code to end with.
ExitCode report(const Error& error, bool json = false);

}  // namespace cryptimg
