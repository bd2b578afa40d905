// SPDX-License-Identifier: GPL-3.0-or-later
//
// Editing a LUKS2 header as an attacker with write access would: the JSON is changed in both copies
// and the checksums made right again, so that only our own checks stand in the way.
#pragma once

#include <string>

namespace cryptimg::testing {

// Replaces the first occurrence of `from` in the JSON of the header at the start of the file by
// `to`. False where the file has no LUKS2 header, or no such text, or no room for it.
bool edit_luks2_json(const std::string& path, const std::string& from, const std::string& to);

}  // namespace cryptimg::testing
