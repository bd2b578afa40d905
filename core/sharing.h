// SPDX-License-Identifier: GPL-3.0-or-later
//
// From which size on an extent is worth sharing with the workers, on this machine and with this
// engine: waking a thread takes as long as ciphering some hundred KiB with a fast engine, or a few
// KiB with a slow one. Measured once, at mount.
#pragma once

#include <cstdint>

#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg {

// What one hand-over and the ciphering of one byte take here.
struct SharingCosts {
  double wake_ns = 0;  // from the wake-up to the woken thread's first instruction
  double encrypt_ns_per_byte = 0;
  double decrypt_ns_per_byte = 0;
};

struct SharingThresholds {
  std::uint64_t read_bytes = 0;
  std::uint64_t write_bytes = 0;
};

// The extent whose half takes four wake-ups to cipher: what the second thread saves then outweighs
// what it costs, also where the wake-up is late.
SharingThresholds sharing_thresholds(const SharingCosts& costs) noexcept;

// Ciphers a few extents, wakes a thread of its own a few times, and takes the medians; a few
// milliseconds, and no more than some 50 with an engine that is slow. Fails as the engine does, or
// where the thread cannot be had.
Result<SharingCosts> measure_sharing(const CipherEngine& engine, const CipherSpec& spec,
                                     const Secret& key);

}  // namespace cryptimg
