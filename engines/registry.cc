// SPDX-License-Identifier: GPL-3.0-or-later
//
// The table of the engines, best first, and how one is chosen from it.
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/afalg_engine.h"
#include "engines/engine_table.h"
#include "engines/engines.h"

namespace cryptimg {

// Each engine's constructor, defined in the file named after it.
#if defined(CRYPTIMG_HAVE_VAES)
std::shared_ptr<const CipherEngine> make_vaes_engine();
#endif
std::shared_ptr<const CipherEngine> make_openssl_engine();

namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::string_view kAfalg = "afalg";
constexpr std::string_view kAfalgPrefix = "afalg:";

EngineTable software_engines() {
  return {
#if defined(CRYPTIMG_HAVE_VAES)
    make_vaes_engine(),
#endif
        make_openssl_engine(),
  };
}

using Trial = std::shared_ptr<std::atomic<bool>>;

// `software` does what the driver fails at.
std::shared_ptr<const CipherEngine> make_afalg(std::string_view driver,
                                               std::shared_ptr<const CipherEngine> software,
                                               const EngineOptions& options, Trial trial) {
  AfalgOptions afalg;
  afalg.driver = driver;
  afalg.software = std::move(software);
  afalg.on_warning = options.on_warning;
  afalg.sector_by_sector = options.offload_by_sector;
  afalg.on_trial = std::move(trial);
  return make_afalg_engine(system_alg_kernel(), std::move(afalg));
}

// afalg comes last: hardware is not faster because it is hardware.
EngineTable built_in_engines(const EngineOptions& options, Trial trial) {
  EngineTable table = software_engines();
  table.push_back(make_afalg({}, make_openssl_engine(), options, std::move(trial)));
  return table;
}

Trial begin_trial() {
  return std::make_shared<std::atomic<bool>>(true);
}

}  // namespace

Status check_engine(const CipherEngine& engine, const CipherSpec& spec) {
  CRYPTIMG_RETURN_IF_ERROR(engine.supports(spec));
  CRYPTIMG_RETURN_IF_ERROR(known_answer_test(engine, spec));
  // Whose work was redone in software has shown nothing.
  const DriverCounters counters = engine.driver_counters();
  if (counters.fallbacks != 0 || counters.quarantines != 0) {
    return fail(Errc::unavailable,
                "the driver behind the engine " + std::string(engine.name()) +
                    " failed, or gave a wrong result, in its known-answer test of " +
                    cipher_name(spec));
  }
  return {};
}

std::vector<EngineInfo> list_engines_of(const EngineTable& table, const CipherSpec& spec) {
  std::vector<EngineInfo> engines;
  std::string chosen;
  for (const auto& engine : table) {
    EngineInfo info;
    info.name = engine->name();
    info.description = engine->description();
    const Status status = check_engine(*engine, spec);
    info.usable = status.has_value();
    info.chosen = info.usable && chosen.empty();
    if (info.chosen) {
      chosen = info.name;
      info.reason = "the best engine that passes its known-answer test here";
    } else {
      info.reason = !info.usable           ? status.error().message
                    : engine->has_driver() ? "usable, and taken where it is measured to be faster"
                                           : "usable, but " + chosen + " is preferred";
    }
    engines.push_back(std::move(info));
  }
  return engines;
}

Result<std::shared_ptr<const CipherEngine>> make_engine_of(const EngineTable& table,
                                                           std::string_view name,
                                                           const CipherSpec& spec) {
  CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
  if (name == kAuto) {
    return auto_engine_of(table, spec);
  }
  std::string names(kAuto);
  for (const auto& engine : table) {
    if (engine->name() == name) {
      CRYPTIMG_RETURN_IF_ERROR(check_engine(*engine, spec));
      return engine;
    }
    names += ", ";
    names += engine->name();
  }
  return fail(Errc::invalid_argument,
              "there is no engine '" + std::string(name) + "', choose one of " + names);
}

std::vector<EngineInfo> list_engines(const CipherSpec& spec) {
  return list_engines_of(built_in_engines({}, begin_trial()), spec);
}

std::vector<EngineInfo> measure_engines(const CipherSpec& spec) {
  return measure_engines_of(built_in_engines({}, begin_trial()), spec);
}

Result<std::shared_ptr<const CipherEngine>> make_engine(std::string_view name,
                                                        const CipherSpec& spec,
                                                        const EngineOptions& options) {
  const Trial trial = begin_trial();
  const bool has_driver = name.substr(0, kAfalgPrefix.size()) == kAfalgPrefix;
  Result<std::shared_ptr<const CipherEngine>> made;
  if (!has_driver && name != kAfalg) {
    made = make_engine_of(built_in_engines(options, trial), name, spec);
  } else {
    CRYPTIMG_RETURN_IF_ERROR(check_spec(spec));
    CRYPTIMG_ASSIGN_OR_RETURN(auto software, auto_engine_of(software_engines(), spec));
    const std::string_view driver = has_driver ? name.substr(kAfalgPrefix.size()) : "";
    made = make_engine_of({make_afalg(driver, std::move(software), options, trial)}, name, spec);
  }
  // From here on somebody waits for its data.
  *trial = false;
  return made;
}

}  // namespace cryptimg
