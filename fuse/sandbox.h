// SPDX-License-Identifier: GPL-3.0-or-later
//
// The daemon's sandbox: once it serves, it needs its open descriptors and nothing else of the
// system. What an attacker could make of a fault in it, by a crafted container or request, then
// ends there: no capabilities, no new privileges, a list of the system calls it makes (seccomp(2)),
// and no files by name (landlock(7)). Unmounting and looking at other processes is the janitor's
// work.
//
// Capabilities and Landlock belong to a thread and pass to those it starts, so each thread that
// serves is started by run_confined(). The list of calls is put on all threads at once, at the
// end. What the kernel does not have is left out, and said.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/result.h"

namespace cryptimg {

// Whether there is one here at all: not where the program was built with sanitizers, which need
// more than is left.
bool has_sandbox();

// For the daemon before it reads a key: no core files (buffers hold plaintext), SIGPIPE ignored.
// Threads made from here on allocate without waiting for writeback, which may come through this
// very mount (a file system on a loop device). False where that is refused: it needs
// CAP_SYS_RESOURCE.
bool prepare_to_serve();

// Runs `work` on a thread of its own that has no capabilities, can gain no privileges and can open
// no file but /dev/fuse; the threads it starts are the same. Waits for it. What `work` throws is
// thrown here. Fails where no thread can be started. REQUIRES: signals are blocked as they shall be
// in the threads started.
Status run_confined(const std::function<void()>& work);

// What `work` returns (a Status or Result), run by run_confined() where `confined`.
template <typename Work>
auto start_threads(bool confined, const Work& work) -> decltype(work()) {
  if (!confined) {
    return work();
  }
  std::optional<decltype(work())> result;
  if (Status ran = run_confined([&] { result.emplace(work()); }); !ran) {
    return tl::unexpected(std::move(ran.error()));
  }
  return std::move(*result);
}

// Confines the calling thread, and takes from all threads of the process every call that serving
// does not need: those fail with EPERM from now on and are counted, but starting a program or
// tracing another process ends this one. A thread has SIGSYS unblocked when it makes such a call,
// or the process ends (block_signals() leaves it so). Irrevocable. Returns what there is of it, for
// the log: "no capabilities, Landlock, filtered system calls". REQUIRES: has_sandbox(); every
// thread has been started, by run_confined() but for the caller; what would be opened later (the
// log, the time zone) is open.
std::string enter_sandbox();

// How many calls the sandbox has refused in this process: none, but for a fault or an attack.
// Attempts to fork, and to find syslog again, are not counted, nor is anything on processors other
// than x86-64.
std::uint64_t refused_calls();

}  // namespace cryptimg
