// SPDX-License-Identifier: GPL-3.0-or-later
//
// thread_error: why a thread could not be started. Pure system calls, any thread.
#pragma once

#include <string>
#include <system_error>

#include "core/result.h"

namespace cryptimg {

// The Error of a std::thread that did not start: out_of_memory where there is no address space for
// its stack, which pthread_create(3) reports as EAGAIN just as a limit on processes; else
// unavailable. `what` begins the sentence: "cannot start the session threads".
Error thread_error(const std::string& what, const std::system_error& cause);

}  // namespace cryptimg
