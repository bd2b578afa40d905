// SPDX-License-Identifier: GPL-3.0-or-later
//
// unlock_container: how `mount` gets from a key file or the terminal to the volume key.
#pragma once

#include "core/container.h"
#include "core/result.h"
#include "core/secret.h"
#include "fuse/options.h"

namespace cryptimg {

// Reads the key file or asks, as often as passphrase.h says, and unlocks. Prints warnings and each
// failed try but the last on stderr; the last failure is returned. Single-threaded.
Result<Secret> unlock_container(Container& container, const MountOptions& options);

}  // namespace cryptimg
