// SPDX-License-Identifier: GPL-3.0-or-later
//
// The only door to the engines. Each engine is one .cc without a header of its own; this is the
// table of them. Thread-safe; the table is immutable.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg {

// How fast an engine was measured to be with extents of one size; 0 where it leaves that direction
// to the CPU.
struct EngineRate {
  std::size_t size_bytes = 0;
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
};

struct EngineInfo {
  std::string name;
  std::string description;
  bool usable = false;  // for the asked spec, on this machine, with its known-answer test passed
  bool chosen = false;  // what "auto" takes, or one of those
  std::string reason;   // why it is chosen, or not usable
  // By measure_engines only, of usable engines.
  std::vector<EngineRate> rates;
  // Of chosen engines: "auto" gives it extents of this size and more; nothing where it gives it no
  // large ones.
  std::optional<std::size_t> reads_from_bytes;
  std::optional<std::size_t> writes_from_bytes;
};

// Every engine built in, best first, judged for `spec`. Exactly one is chosen where any is usable:
// the one that "auto" takes where it does not find hardware to be faster, which is not measured
// here.
std::vector<EngineInfo> list_engines(const CipherSpec& spec);
// The same with all that "auto" would measure, and what it would choose then: one engine, or
// several. Takes some 40 milliseconds an engine.
std::vector<EngineInfo> measure_engines(const CipherSpec& spec);

// Told what befalls an engine in use, in one sentence without a full stop; from any thread.
using EngineWarning = std::function<void(const std::string&)>;

// How an engine is to be, where it has a choice.
struct EngineOptions {
  EngineWarning on_warning;
  bool offload_by_sector = false;  // afalg: an operation for each sector, not for each extent
};

// The engine called `name`, or for "auto" the best that supports `spec` on this machine: where
// there is AES hardware that was measured to be faster than the CPU with extents of some size, an
// EngineRouter over it and the CPU's engines, called for example "openssl+afalg". A known-answer
// test runs before it is returned; an engine that fails it is unavailable (auto moves on; a
// driver that was given up is told to on_warning). "afalg:DRIVER" is the engine afalg with that
// driver of the kernel. Engine afalg forks when its first session is opened, and so does auto where
// there is hardware. unknown name: invalid_argument, listing the names there are.
Result<std::shared_ptr<const CipherEngine>> make_engine(std::string_view name,
                                                        const CipherSpec& spec,
                                                        const EngineOptions& options = {});

// Enciphers and deciphers a known extent per (mode, IV) of the spec and compares with stored
// ciphertext that was made by another implementation. unavailable where the engine errs.
Status known_answer_test(const CipherEngine& engine, const CipherSpec& spec);

}  // namespace cryptimg
