// SPDX-License-Identifier: GPL-3.0-or-later
//
// Editing a LUKS2 header as an attacker with write access would: the JSON is changed in both copies
// and the checksums made right again, so that only our own checks stand in the way.
#pragma once

#include <cstddef>
#include <string>

namespace cryptimg::testing {

// Replaces the first occurrence of `from` in the JSON of the header at the start of the file by
// `to`. False where the file has no LUKS2 header, or no such text, or no room for it.
bool edit_luks2_json(const std::string& path, const std::string& from, const std::string& to);

// Makes the checksum right of the header copy that is `size_bytes` long and begins at byte `start`
// of `file`, a container's content.
void seal_luks2_header(std::string& file, std::size_t start, std::size_t size_bytes);

}  // namespace cryptimg::testing
