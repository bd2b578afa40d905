// SPDX-License-Identifier: GPL-3.0-or-later
//
// From argv to values. Prints nothing and never exits, so that tests can call it. Main thread.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "core/result.h"
#include "fuse/options.h"

namespace cryptimg {

// What --help and --version ask for: a text for stdout.
struct ShowText {
  std::string text;
};

struct StatusCommand {
  std::optional<std::string> target;
  bool json = false;
};

struct InfoCommand {
  std::string container;
  std::optional<std::string> header;
  bool json = false;
};

struct EnginesCommand {
  bool json = false;
};

using Command =
    std::variant<ShowText, CreateCommandOptions, MountOptions, UmountOptions, LockOptions,
                 UnlockOptions, StatusCommand, InfoCommand, EnginesCommand>;

// Parses a command line; every value is checked as far as no file needs to be looked at.
// invalid_argument with one sentence that names the option at fault. Called as "mount.anything"
// (a link in /sbin), it takes the arguments that mount(8) gives its helpers:
// CONTAINER MOUNTPOINT [-fnsv] [-N namespace] [-t type] [-o options].
Result<Command> parse_command_line(int argc, const char* const* argv);

// The same for mount(8)'s helper, whatever argv[0] is.
Result<Command> parse_mount_helper(int argc, const char* const* argv);

// Whether the command line asks for JSON; also of one that does not parse.
bool wants_json(int argc, const char* const* argv);

// What --version prints: this program, its libraries and the engines built in.
std::string version_text();

}  // namespace cryptimg
