// SPDX-License-Identifier: GPL-3.0-or-later
//
// The daemon's log: syslog, a file, or stderr in the foreground. Thread-safe after open_log();
// before it, messages are dropped. Never key material; a message's control characters are escaped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace cryptimg {

// A file that must not become the log. `role` is what the user calls it: "the container".
struct PreciousFile {
  std::string path;
  std::string role;
};

// Where to: `file` if given (appended to, made with mode 0600), else stderr or syslog. A missing
// syslog daemon is no failure. `level` is one of spdlog's names: trace, debug, info, warning,
// error, critical, off. Call once, while the process has one thread.
// invalid_argument, with no byte changed, where `file` is one of `precious` (by identity, not by
// name) or what a loop device stands on; unsupported where it is neither a regular file nor a
// character device, so that writing cannot wait for a reader.
Status open_log(const std::optional<std::string>& file, bool to_stderr, const std::string& level,
                const std::vector<PreciousFile>& precious);

void log_info(const std::string& message) noexcept;
void log_warning(const std::string& message) noexcept;
void log_error(const std::string& message) noexcept;

}  // namespace cryptimg
