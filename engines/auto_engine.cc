// SPDX-License-Identifier: GPL-3.0-or-later
//
// What "auto" takes: the best engine on the CPU, and where there is hardware that is measured to be
// faster, a router over it and them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/engine_curve.h"
#include "core/engine_router.h"
#include "engines/engine_table.h"

namespace cryptimg {
namespace {

using EnginePtr = std::shared_ptr<const CipherEngine>;

// What of a table is usable.
struct Usable {
  std::vector<EnginePtr> cpu;  // best first
  EnginePtr device;            // or null
  std::string reasons;         // why others are not
};

Usable usable_of(const EngineTable& table, const CipherSpec& spec) {
  Usable usable;
  for (const EnginePtr& engine : table) {
    const bool is_device = engine->has_driver();
    if (is_device && (usable.device != nullptr || usable.cpu.empty())) {
      continue;
    }
    if (const Status status = check_engine(*engine, spec); !status) {
      usable.reasons += usable.reasons.empty() ? "" : "; ";
      usable.reasons += std::string(engine->name()) + ": " + status.error().message;
    } else if (is_device) {
      usable.device = engine;
    } else {
      usable.cpu.push_back(engine);
    }
  }
  return usable;
}

// The driver failed, or was given up, since it was tested.
Status check_driver(const CipherEngine& engine) {
  const DriverCounters counters = engine.driver_counters();
  if (counters.fallbacks != 0 || counters.quarantines != 0) {
    return fail(Errc::unavailable, "its driver failed while it was measured");
  }
  return {};
}

Result<std::shared_ptr<const EngineRouter>> route_among(const Usable& usable,
                                                        const CipherSpec& spec) {
  // The device first: it may fork.
  CRYPTIMG_ASSIGN_OR_RETURN(EngineCurves of_device, measure_engine(*usable.device, spec));
  CRYPTIMG_RETURN_IF_ERROR(check_driver(*usable.device));
  std::vector<MeasuredEngine> cpu;
  for (const EnginePtr& engine : usable.cpu) {
    CRYPTIMG_ASSIGN_OR_RETURN(EngineCurves curves, measure_engine(*engine, spec));
    cpu.push_back({engine, std::move(curves)});
  }
  CRYPTIMG_ASSIGN_OR_RETURN(
      auto router,
      EngineRouter::create(std::move(cpu), {usable.device, std::move(of_device)}, spec));
  CRYPTIMG_RETURN_IF_ERROR(check_driver(*usable.device));
  return router;
}

std::vector<EngineRate> rates_of(const EngineCurves& curves) {
  std::vector<EngineRate> rates;
  const EngineCurve& either = curves.decrypt.empty() ? curves.encrypt : curves.decrypt;
  const auto rate = [](const EngineCurve& curve, std::size_t size_bytes) {
    return curve.empty() ? 0 : curve.bytes_per_second(size_bytes);
  };
  for (const EngineCurve::Point& point : either.points()) {
    rates.push_back({point.size_bytes, rate(curves.decrypt, point.size_bytes),
                     rate(curves.encrypt, point.size_bytes)});
  }
  return rates;
}

std::string from_words(const EngineInfo& info) {
  const auto kib = [](std::size_t bytes) {
    constexpr std::size_t kKib = 1024;
    return bytes < kKib ? std::to_string(bytes) + " bytes" : std::to_string(bytes / kKib) + " KiB";
  };
  std::string words;
  if (info.reads_from_bytes) {
    words = "reads of " + kib(*info.reads_from_bytes) + " and more";
  }
  if (info.writes_from_bytes) {
    words +=
        (words.empty() ? "" : ", ") + ("writes of " + kib(*info.writes_from_bytes)) + " and more";
  }
  return words.empty() ? "some small extents" : words;
}

}  // namespace

Result<EnginePtr> auto_engine_of(const EngineTable& table, const CipherSpec& spec) {
  const Usable usable = usable_of(table, spec);
  if (usable.cpu.empty()) {
    return fail(Errc::unavailable, "no engine on this machine can serve " + cipher_name(spec) +
                                       " (" + usable.reasons + ")");
  }
  if (usable.device != nullptr) {
    const auto router = route_among(usable, spec);
    if (router && (*router)->uses((*router)->device_number())) {
      return *router;
    }
  }
  return usable.cpu.front();
}

std::vector<EngineInfo> measure_engines_of(const EngineTable& table, const CipherSpec& spec) {
  std::vector<EngineInfo> infos = list_engines_of(table, spec);
  const Usable usable = usable_of(table, spec);
  const auto info_of = [&](const CipherEngine& engine) -> EngineInfo& {
    return *std::find_if(infos.begin(), infos.end(),
                         [&](const EngineInfo& info) { return info.name == engine.name(); });
  };
  if (usable.device == nullptr) {
    for (const EnginePtr& engine : usable.cpu) {
      EngineInfo& info = info_of(*engine);
      if (const auto curves = measure_engine(*engine, spec)) {
        info.rates = rates_of(*curves);
      }
      if (info.chosen) {
        info.reads_from_bytes = info.writes_from_bytes = spec.sector_size_bytes;
      }
    }
    return infos;
  }
  const auto router = route_among(usable, spec);
  if (!router) {
    info_of(*usable.device).usable = false;
    info_of(*usable.device).reason = router.error().message;
    return infos;
  }
  const bool is_routed = (*router)->uses((*router)->device_number());
  for (unsigned number = 0; number < (*router)->engines().size(); ++number) {
    const MeasuredEngine& measured = (*router)->engines()[number];
    EngineInfo& info = info_of(*measured.engine);
    info.rates = rates_of(measured.curves);
    if (is_routed) {
      info.chosen = (*router)->uses(number);
      info.reads_from_bytes = (*router)->chosen_from(Direction::decrypt, number);
      info.writes_from_bytes = (*router)->chosen_from(Direction::encrypt, number);
      info.reason = info.chosen ? "the fastest here for " + from_words(info)
                                : "usable, but at no size the fastest";
    } else if (info.chosen) {
      info.reads_from_bytes = info.writes_from_bytes = spec.sector_size_bytes;
    } else if (measured.engine->has_driver()) {
      info.reason = "usable, but at no size clearly faster than the CPU";
    }
  }
  return infos;
}

}  // namespace cryptimg
