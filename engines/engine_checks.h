// SPDX-License-Identifier: GPL-3.0-or-later
//
// The checks that every engine makes in the same words. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "core/result.h"
#include "core/secret.h"

namespace cryptimg {

// What CipherSession::transform requires of its arguments: whole sectors, equal sizes, counters
// that do not overflow, ranges that are equal or disjoint.
bool transform_is_valid(const CipherSpec& spec, std::uint64_t first_sector, Bytes source,
                        MutableBytes target) noexcept;

// What CipherEngine::new_session requires of the key: invalid_argument where it has another size
// than the spec says; unsupported where both halves of an XTS key are equal, which makes XTS as
// weak as its tweaks are known (IEEE 1619 forbids it, and OpenSSL refuses it).
Status check_key(const CipherSpec& spec, const Secret& key);

}  // namespace cryptimg
