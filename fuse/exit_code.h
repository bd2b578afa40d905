// SPDX-License-Identifier: GPL-3.0-or-later
//
// The exit codes of every command, and the one place that turns an Error into one of them.
#pragma once

#include "core/result.h"

namespace cryptimg {

enum class ExitCode : int {
  ok = 0,
  parameters = 1,
  passphrase = 2,
  memory = 3,
  device = 4,  // a device or file is unusable or absent
  exists = 5,  // exists or busy
};

ExitCode exit_code(const Error& error);

}  // namespace cryptimg
