// SPDX-License-Identifier: GPL-3.0-or-later
//
// Whether both copies of a LUKS2 header are whole. libcryptsetup opens a container by whichever
// copy is good and says nothing of the other, and the next accident would take the last one.
#pragma once

#include <cstdint>
#include <string>

#include "core/container_file.h"

namespace cryptimg {

// A sentence for people where one copy of the header in `file` is damaged or older than the other,
// else an empty string. `metadata_size_bytes` is the size of one copy, as the good one says; 0
// (LUKS1, which has one copy) and checksums other than SHA-256 are not judged. Reads only.
// The layout is that of the LUKS2 on-disk format specification, section 2.1.
std::string header_copies_warning(const ContainerFile& file, std::uint64_t metadata_size_bytes);

// Where the metadata of a LUKS header at the start of `file` end: both copies of LUKS2, everything
// before the payload of LUKS1. 0 where there is no LUKS header.
std::uint64_t own_header_end(const ContainerFile& file);

}  // namespace cryptimg
