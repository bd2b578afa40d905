// SPDX-License-Identifier: GPL-3.0-or-later
//
// The afalg engine apart from which kernel is behind it, so that tests can give it one that
// misbehaves. For registry.cc and tests; everyone else includes engines/engines.h.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/cipher_engine.h"
#include "engines/afalg_kernel.h"

namespace cryptimg {

struct AfalgOptions {
  // The driver to use, as AF_ALG binds it; empty for the best hardware driver there is.
  std::string driver;
  // Does what the driver fails at, and is what it is compared with; null is the engine openssl.
  std::shared_ptr<const CipherEngine> software;
  // Operations in flight at once, over all sessions.
  unsigned lanes = 8;
  // An operation (for CBC writes: a piece of an extent) that takes longer never ends: the driver is
  // given up, for as long as the engine lives.
  std::chrono::milliseconds patience{5000};
  // The same while *on_trial: nobody waits for the data, and a mount must not wait for a driver
  // that is broken. Null is never.
  std::shared_ptr<const std::atomic<bool>> on_trial;
  std::chrono::milliseconds trial_patience{1500};
  // Of every so many pieces one has a sector of its result compared with the CPU's; the first has.
  unsigned sample_every = 16;
  // Driver failures in a row after which it is given up too.
  unsigned max_failures = 32;
  // One operation for each sector, as everybody does it, instead of one for many; for comparison.
  bool sector_by_sector = false;
  // Told once, in one sentence without a full stop, from any thread, when the driver is given up.
  std::function<void(const std::string&)> on_warning;
};

// The engine. Its helper process (afalg_helper.h) is started with the first session.
std::shared_ptr<const CipherEngine> make_afalg_engine(std::shared_ptr<const AlgKernel> kernel,
                                                      AfalgOptions options);

}  // namespace cryptimg
