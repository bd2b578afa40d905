// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "engines/engines.h"
#include "fuse/commands.h"
#include "fuse/sizes.h"

namespace cryptimg {
namespace {

nlohmann::ordered_json rates_json(const EngineInfo& engine) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const EngineRate& rate : engine.rates) {
    array.push_back({{"size", rate.size_bytes},
                     {"read_rate", static_cast<std::uint64_t>(rate.read_bytes_per_second)},
                     {"write_rate", static_cast<std::uint64_t>(rate.write_bytes_per_second)}});
  }
  return array;
}

nlohmann::ordered_json or_null(const std::optional<std::size_t>& bytes) {
  return bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json();
}

void print_json(const std::vector<EngineInfo>& engines) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const EngineInfo& engine : engines) {
    array.push_back({{"name", engine.name},
                     {"description", valid_text(engine.description)},
                     {"usable", engine.usable},
                     {"chosen", engine.chosen},
                     {"reason", valid_text(engine.reason)},
                     {"reads_from", or_null(engine.reads_from_bytes)},
                     {"writes_from", or_null(engine.writes_from_bytes)},
                     {"rates", rates_json(engine)}});
  }
  std::printf("%s\n", nlohmann::ordered_json{{"engines", array}}.dump(2, ' ', true).c_str());
}

std::string rate_text(double bytes_per_second) {
  constexpr double kMega = 1e6;
  constexpr double kFew = 10;
  std::array<char, 32> text{};
  const double rate = bytes_per_second / kMega;
  std::snprintf(text.data(), text.size(), rate < kFew ? "%.1f" : "%.0f", rate);
  return text.data();
}

// One line an engine and direction: its rates by size, and from which size on auto takes it.
void print_rates(const std::vector<EngineInfo>& engines, int width) {
  const auto any = std::find_if(engines.begin(), engines.end(),
                                [](const EngineInfo& info) { return !info.rates.empty(); });
  if (any == engines.end()) {
    return;
  }
  // Of a slow engine fewer sizes were measured.
  std::vector<std::size_t> sizes;
  for (const EngineInfo& engine : engines) {
    for (const EngineRate& rate : engine.rates) {
      if (std::find(sizes.begin(), sizes.end(), rate.size_bytes) == sizes.end()) {
        sizes.push_back(rate.size_bytes);
      }
    }
  }
  std::sort(sizes.begin(), sizes.end());
  std::printf("\nMeasured now, one thread, MB/s by size of the extent\n  %-*s       ", width, "");
  for (const std::size_t size : sizes) {
    std::printf(" %9s", human_size(size).c_str());
  }
  std::printf("  auto takes it\n");
  for (const EngineInfo& engine : engines) {
    for (const bool is_read : {true, false}) {
      if (engine.rates.empty()) {
        continue;
      }
      std::printf("  %-*s  %-5s", width, engine.name.c_str(), is_read ? "read" : "write");
      for (std::size_t index = 0; index < sizes.size(); ++index) {
        const bool is_there = index < engine.rates.size();
        const EngineRate rate = is_there ? engine.rates[index] : EngineRate();
        const double shown = is_read ? rate.read_bytes_per_second : rate.write_bytes_per_second;
        std::printf(" %9s", shown > 0 ? rate_text(shown).c_str() : "-");
      }
      const auto from = is_read ? engine.reads_from_bytes : engine.writes_from_bytes;
      std::printf("  %s\n", from ? ("from " + human_size(*from) + " on").c_str() : "-");
    }
  }
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
  print_rates(engines, static_cast<int>(width));
}

}  // namespace

ExitCode run_engines(bool json) {
  const CipherSpec spec;
  const std::vector<EngineInfo> engines = measure_engines(spec);
  if (json) {
    print_json(engines);
  } else {
    print_table(engines, cipher_name(spec));
  }
  return ExitCode::ok;
}

}  // namespace cryptimg
