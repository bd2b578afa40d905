// SPDX-License-Identifier: GPL-3.0-or-later
//
// The only door to the engines. Each engine is one .cc without a header of its own; this is the
// table of them. Thread-safe; the table is immutable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg {

struct EngineInfo {
  std::string name;
  std::string description;
  bool usable = false;  // for the asked spec, on this machine, with its known-answer test passed
  bool chosen = false;  // what "auto" takes
  std::string reason;   // why it is chosen, or not usable
};

// Every engine built in, best first, judged for `spec`. Exactly one is chosen where any is usable.
std::vector<EngineInfo> list_engines(const CipherSpec& spec);

// Told what befalls an engine in use, in one sentence without a full stop; from any thread.
using EngineWarning = std::function<void(const std::string&)>;

// How an engine is to be, where it has a choice.
struct EngineOptions {
  EngineWarning on_warning;
  bool offload_by_sector = false;  // afalg: an operation for each sector, not for each extent
};

// The engine called `name`, or for "auto" the best that supports `spec` on this machine. A
// known-answer test runs before it is returned; an engine that fails it is unavailable (auto moves
// on, saying nothing of it here). "afalg:DRIVER" is the engine afalg with that driver of the
// kernel. Engine afalg forks when its first session is opened. unknown name: invalid_argument,
// listing the names there are.
Result<std::shared_ptr<const CipherEngine>> make_engine(std::string_view name,
                                                        const CipherSpec& spec,
                                                        const EngineOptions& options = {});

// Enciphers and deciphers a known extent per (mode, IV) of the spec and compares with stored
// ciphertext that was made by another implementation. unavailable where the engine errs.
Status known_answer_test(const CipherEngine& engine, const CipherSpec& spec);

}  // namespace cryptimg
