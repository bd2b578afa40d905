// SPDX-License-Identifier: GPL-3.0-or-later
//
// Passphrases, byte for byte as cryptsetup(8) reads them. Single-threaded; the result is guarded
// memory and every intermediate buffer is wiped. Never from argv or the environment.
#pragma once

#include <optional>
#include <string>

#include "core/result.h"
#include "core/secret.h"

namespace cryptimg {

// A key file: the whole content, newline included; "-" is all of stdin. At most 8 MiB (cryptsetup's
// limit). `warning` is set where others than the owner can read the file.
Result<Secret> read_key_file(const std::string& path, std::string& warning);

// From stdin: where it is a terminal, prompts on it without echo (`prompt`, and again with
// "Verify passphrase: " where `verify`); else reads up to the first newline or the end, prompting
// for nothing. invalid_argument where both entries differ or stdin is at its end.
Result<Secret> read_passphrase(const std::string& prompt, bool verify);

// How often `mount` asks: three times on a terminal, once otherwise or with a key file.
bool stdin_is_terminal();

}  // namespace cryptimg
