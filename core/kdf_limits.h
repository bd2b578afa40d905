// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a header may ask of this machine before anything is known to be right: key derivation costs
// what the header says, and whoever can write to the file writes the header. Pure reading, any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/container.h"

namespace cryptimg {

// One unit is one iteration of PBKDF2, or one pass of Argon2 over 1 KiB. Either takes between a
// quarter of a microsecond and one on the machines of today, so this is 4 to 18 minutes: more than
// a hundred times what cryptsetup chooses, a quarter of what a header can ask for.
inline constexpr std::uint64_t kMaxKdfWork = std::uint64_t{1} << 30;
// Argon2 starts that many threads at once; cryptsetup asks for 4 at most.
inline constexpr std::uint32_t kMaxKdfThreads = 64;

// Why no key is derived for this keyslot, as the end of a sentence ("keyslot 0 asks for ..."), or
// an empty string. Memory is not judged here.
std::string kdf_work_refusal(const KeyslotInfo& slot);

// How much memory there is for this process at all: the machine's, or less where RLIMIT_AS or a
// control group says so. More than that would only wake the kernel's OOM killer.
std::uint64_t memory_limit_kib();

// The smallest memory limit among a process's control groups and those above them, of version 1
// and 2, or the largest number where there is none. `memberships` and `mounts` are the texts of
// /proc/self/cgroup and /proc/self/mountinfo; `root` is put before every path read, for tests.
std::uint64_t cgroup_memory_limit_bytes(std::string_view memberships, std::string_view mounts,
                                        const std::string& root);

}  // namespace cryptimg
