// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>
#include <cstring>
#include <string>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "fuse/commands.h"

namespace cryptimg {
ExitCode report(const Error& error, bool json) {
  std::string message = error.message;
  if (message.empty()) {
    message = error.os_errno != 0 ? std::strerror(error.os_errno) : "the operation failed";
  }
  message = printable(message);
  const ExitCode code = exit_code(error);
  if (json) {
    const nlohmann::ordered_json object = {{"error", message},
                                           {"exit_code", static_cast<int>(code)}};
    std::fprintf(stderr, "%s\n", object.dump().c_str());
  } else {
    std::fprintf(stderr, "cryptimg: %s.\n", message.c_str());
  }
  return code;
}

}  // namespace cryptimg
