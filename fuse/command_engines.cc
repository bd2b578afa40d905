// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "engines/engines.h"
#include "fuse/commands.h"

namespace cryptimg {
namespace {

void print_json(const std::vector<EngineInfo>& engines) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const EngineInfo& engine : engines) {
    array.push_back({{"name", engine.name},
                     {"description", valid_text(engine.description)},
                     {"usable", engine.usable},
                     {"chosen", engine.chosen},
                     {"reason", valid_text(engine.reason)}});
  }
  std::printf("%s\n", nlohmann::ordered_json{{"engines", array}}.dump(2, ' ', true).c_str());
}

void print_table(const std::vector<EngineInfo>& engines, const std::string& cipher) {
  std::size_t width = 6;
  for (const EngineInfo& engine : engines) {
    width = std::max(width, engine.name.size());
  }
  std::printf("Engines for %s, best first (* is chosen)\n", cipher.c_str());
  for (const EngineInfo& engine : engines) {
    std::printf("%c %-*s  %-8s  %s\n", engine.chosen ? '*' : ' ', static_cast<int>(width),
                engine.name.c_str(), engine.usable ? "usable" : "unusable",
                printable(engine.description).c_str());
    if (!engine.reason.empty()) {
      std::printf("  %-*s  %s\n", static_cast<int>(width), "", printable(engine.reason).c_str());
    }
  }
}

}  // namespace

ExitCode run_engines(bool json) {
  const CipherSpec spec;
  const std::vector<EngineInfo> engines = list_engines(spec);
  if (json) {
    print_json(engines);
  } else {
    print_table(engines, cipher_name(spec));
  }
  return ExitCode::ok;
}

}  // namespace cryptimg
