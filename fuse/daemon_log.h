// SPDX-License-Identifier: GPL-3.0-or-later
//
// The daemon's log: syslog, a file, or stderr in the foreground. Thread-safe after open_log();
// before it, messages are dropped. Never key material; a message's control characters are escaped.
#pragma once

#include <optional>
#include <string>

#include "core/result.h"

namespace cryptimg {

// Where to: `file` if given (appended to, made with mode 0600), else stderr or syslog. A missing
// syslog daemon is no failure. `level` is one of spdlog's names: trace, debug, info, warning,
// error, critical, off. Call once, while the process has one thread.
Status open_log(const std::optional<std::string>& file, bool to_stderr, const std::string& level);

void log_info(const std::string& message) noexcept;
void log_warning(const std::string& message) noexcept;
void log_error(const std::string& message) noexcept;

}  // namespace cryptimg
