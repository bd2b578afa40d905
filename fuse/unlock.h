// SPDX-License-Identifier: GPL-3.0-or-later
//
// How `mount` gets from a header, and a key file or the terminal, to the volume key.
#pragma once

#include "core/container.h"
#include "core/result.h"
#include "core/secret.h"
#include "fuse/options.h"

namespace cryptimg {

// Whether the header has the cipher and UUID that the options require: corrupt, naming both, where
// not. Pure function. That a header says so is no proof: see SECURITY.md.
Status check_expected(const ContainerInfo& info, const MountOptions& options);

// Makes sure of check_expected(), reads the key file or asks, as often as passphrase.h says, and
// unlocks. Prints warnings and each failed try but the last on stderr; the last failure is
// returned. Single-threaded.
Result<Secret> unlock_container(Container& container, const MountOptions& options);

}  // namespace cryptimg
