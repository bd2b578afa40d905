// SPDX-License-Identifier: GPL-3.0-or-later
//
// How one engine is chosen among several, apart from which engines this program has, so that tests
// can have a choice made among engines of their own. For registry.cc and tests; everyone else
// includes engines/engines.h. Pure functions, any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/cipher_engine.h"
#include "core/result.h"
#include "engines/engines.h"

namespace cryptimg {

// Engines, best first. Names are unique, and none is "auto". Those that have a driver come last,
// and "auto" looks at the first of these only.
using EngineTable = std::vector<std::shared_ptr<const CipherEngine>>;

// Whether `engine` may serve `spec`: it says so, and its known-answer test bears it out.
Status check_engine(const CipherEngine& engine, const CipherSpec& spec);

// What list_engines, measure_engines and make_engine promise, for the engines of `table`.
std::vector<EngineInfo> list_engines_of(const EngineTable& table, const CipherSpec& spec);
std::vector<EngineInfo> measure_engines_of(const EngineTable& table, const CipherSpec& spec);
Result<std::shared_ptr<const CipherEngine>> make_engine_of(const EngineTable& table,
                                                           std::string_view name,
                                                           const CipherSpec& spec);
// What "auto" takes (auto_engine.cc).
Result<std::shared_ptr<const CipherEngine>> auto_engine_of(const EngineTable& table,
                                                           const CipherSpec& spec);

}  // namespace cryptimg
