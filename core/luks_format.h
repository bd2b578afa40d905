// SPDX-License-Identifier: GPL-3.0-or-later
//
// Making a LUKS header, complete with its keyslot, in memory. libcryptsetup never sees the target:
// it formats an anonymous memory file, whose bytes the caller then writes where they belong. So a
// failure half way (a KDF without memory, a refused cipher) has touched nothing, and files, block
// devices and detached headers are written in one way. No state: any thread.
#pragma once

#include <cstdint>

#include "core/container.h"
#include "core/result.h"
#include "core/secret.h"
#include "core/unique_fd.h"

namespace cryptimg {

struct FormattedHeader {
  UniqueFd memory;               // holds the header from byte 0
  std::uint64_t size_bytes = 0;  // how much of it to write
};

// Where the data begins behind an attached header, and how long a detached one is: 16 MiB (LUKS2)
// and 2 MiB (LUKS1), as cryptsetup has it.
std::uint64_t header_size_bytes(const CreateOptions& options);

// REQUIRES: `plan` is check_create_options(options). out_of_memory (naming the KiB), unsupported
// (libcryptsetup lacks what was asked for), io.
Result<FormattedHeader> format_header(const CreateOptions& options, const CreatePlan& plan,
                                      const Secret& passphrase);

}  // namespace cryptimg
