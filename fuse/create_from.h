// SPDX-License-Identifier: GPL-3.0-or-later
//
// create --from: a container that holds a file's content from the start. Main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/container.h"
#include "core/result.h"
#include "core/secret.h"
#include "core/unique_fd.h"

namespace cryptimg {

// The file or block device with the plaintext.
struct PlainSource {
  std::string path;
  UniqueFd file;
  std::uint64_t size_bytes = 0;
};

// Opens it for reading. invalid_argument where it is empty, or neither a regular file nor a block
// device.
Result<PlainSource> open_source(const std::string& path);

// Creates the container and enciphers the source into it, holes as the zeros they read as, the
// last sector filled up with zeros; what lies past it is as in any new container. A new file
// appears under its name when all of it is on disk, and not at all on failure or a signal that
// ends the program. On a block device the header is there first, and a failure says so.
// REQUIRES: options.size_bytes >= source.size_bytes or a block device; no detached header.
Status create_container_from(const CreateOptions& options, const PlainSource& source,
                             const Secret& passphrase, std::vector<std::string>& warnings);

}  // namespace cryptimg
