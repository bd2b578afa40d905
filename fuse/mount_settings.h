// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the options of a mount mean for its parts, and the sizes that follow from the machine. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/encrypted_image.h"
#include "fuse/image_fs.h"
#include "fuse/options.h"
#include "fuse/session.h"

namespace cryptimg {

// Threads that take requests: some more than cores, since they also wait for the disk.
unsigned session_threads();
// Request buffers: one for each session thread, which always holds one, and one more for what it
// works on; two for each worker; some to spare. Bounded, whatever the number of cores.
std::size_t buffer_count(unsigned workers);

ImageOptions image_options(const MountOptions& options, std::uint64_t size_bytes);
ImageFsOptions fs_options(const MountOptions& options, bool mountpoint_is_file);
// For a session whose user data is an ImageFs.
SessionOptions session_options(const MountOptions& options, const std::string& mountpoint,
                               const std::string& container);

}  // namespace cryptimg
