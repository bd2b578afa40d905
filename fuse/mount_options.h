// SPDX-License-Identifier: GPL-3.0-or-later
//
// The values of mount's options, from the command line and from -o alike, checked in one place.
// Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "fuse/options.h"

namespace cryptimg {

// Sets the long option `name` (without dashes) that takes a value: key-file, header, key-slot,
// require-cipher, uuid, engine, offload-unit, workers, max-read-size, max-write-size, coalesce,
// max-extent, readahead, backing-io, log-file, log-level. invalid_argument, naming the option,
// where the value does not fit or there is no such option.
Status set_mount_option(MountOptions& options, std::string_view name, const std::string& value);

// Applies the text of -o: words between commas; a backslash takes the next character as it is, so
// that a value may hold a comma. Knows FUSE's own (allow_other, allow_root, default_permissions,
// uid=, gid=, umask=), ro and rw, and every long option of mount, those with a value as
// name=value; dm-crypt's spelling max_read_size too. A later word overrides an earlier one.
// Words that fstab(5) keeps for others are passed over. invalid_argument for any other word.
Status apply_mount_words(MountOptions& options, std::string_view text);

}  // namespace cryptimg
