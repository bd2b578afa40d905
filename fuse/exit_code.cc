// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/exit_code.h"

namespace cryptimg {

ExitCode exit_code(const Error& error) {
  switch (error.code) {
    case Errc::invalid_argument:
      return ExitCode::parameters;
    case Errc::wrong_key:
      return ExitCode::passphrase;
    case Errc::out_of_memory:
      return ExitCode::memory;
    case Errc::exists:
    case Errc::busy:
      return ExitCode::exists;
    case Errc::io:
    case Errc::no_space:
    case Errc::corrupt:
    case Errc::unsupported:
    case Errc::unavailable:
    case Errc::out_of_range:
    case Errc::not_found:
    case Errc::permission:
    case Errc::read_only:
    case Errc::shutting_down:
      return ExitCode::device;
  }
  return ExitCode::device;
}

}  // namespace cryptimg
