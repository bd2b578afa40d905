// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/engine_router.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace cryptimg {
namespace {

using std::chrono::nanoseconds;

constexpr std::array kDirections = {Direction::decrypt, Direction::encrypt};
constexpr unsigned kWhole = 256;  // what shares are parts of
// Two engines within this of each other are equally fast, as well as can be measured.
constexpr double kClearly = 0.95;
// Sharing costs a core what it saves in time, so it has to save more.
constexpr double kWorthSharing = 0.9;
constexpr std::size_t kMinSharedBytes = 16384;
constexpr nanoseconds kShareLimit{4'000'000};

double times(nanoseconds time, double factor) {
  return static_cast<double>(time.count()) * factor;
}

}  // namespace

// Holds a session of each engine.
class EngineRouter::Session final : public CipherSession {
 public:
  Session(std::shared_ptr<const EngineRouter> router,
          std::vector<std::unique_ptr<CipherSession>> sessions)
      : owned_(std::move(router)), router_(*owned_), sessions_(std::move(sessions)) {}

  Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                   MutableBytes target) noexcept override {
    const Route& route = router_.route(direction, source.size());
    if (route.engine != router_.device_number()) {
      return sessions_[route.engine]->transform(direction, first_sector, source, target);
    }
    if (router_.device().driver_counters().quarantines != 0) {
      return sessions_[route.fallback]->transform(direction, first_sector, source, target);
    }
    const bool is_alone = router_.at_work_.fetch_add(1, std::memory_order_relaxed) == 0;
    Status status = route.cpu_share > 0 && is_alone
                        ? share(route, direction, first_sector, source, target)
                        : sessions_.back()->transform(direction, first_sector, source, target);
    router_.at_work_.fetch_sub(1, std::memory_order_relaxed);
    return status;
  }

 private:
  // The device begins with the first part, the CPU does the last one meanwhile.
  Status share(const Route& route, Direction direction, std::uint64_t first_sector, Bytes source,
               MutableBytes target) noexcept {
    const std::size_t sector_bytes = router_.spec_.sector_size_bytes;
    const std::size_t ours = round_down(source.size() * route.cpu_share / kWhole, sector_bytes);
    const std::size_t theirs = source.size() - ours;
    CipherSession& device = *sessions_.back();
    if (ours == 0 || theirs == 0 ||
        !device.begin(direction, first_sector, source.first(theirs), target.first(theirs))) {
      return device.transform(direction, first_sector, source, target);
    }
    const Status own = sessions_[route.fallback]->transform(
        direction, first_sector + theirs / sector_bytes, source.last(ours), target.last(ours));
    Status status = device.finish();
    if (!status || !own) {
      wipe(target);
    }
    return status ? own : status;
  }

  const std::shared_ptr<const EngineRouter> owned_;
  const EngineRouter& router_;
  const std::vector<std::unique_ptr<CipherSession>> sessions_;
};

std::size_t EngineRouter::size_class(std::size_t bytes) {
  const auto bits = static_cast<std::size_t>(std::bit_width((bytes - 1) / kIvUnitBytes));
  return std::min(bits, kSizes - 1);
}

EngineRouter::EngineRouter(std::vector<MeasuredEngine> engines, const CipherSpec& spec)
    : engines_(std::move(engines)), spec_(spec) {
  for (const Direction direction : kDirections) {
    for (std::size_t size = 0; size < kSizes; ++size) {
      Route& route = routes_[static_cast<std::size_t>(direction)][size];
      const auto time_of = [&](std::size_t engine) {
        return engines_[engine].curves.of(direction).time_for(size_bytes(size));
      };
      for (std::uint8_t engine = 0; engine < device_number(); ++engine) {
        if (time_of(engine) < time_of(route.fallback)) {
          route.fallback = engine;
        }
      }
      const bool is_device =
          !engines_.back().curves.of(direction).empty() &&
          times(time_of(device_number()), 1) < times(time_of(route.fallback), kClearly);
      route.engine = is_device ? device_number() : route.fallback;
    }
  }
  const std::uint8_t first = route(Direction::decrypt, kCurveSizesBytes.back()).fallback;
  name_ = std::string(engines_[first].engine->name()) + "+" + std::string(device().name());
}

Result<std::shared_ptr<const EngineRouter>> EngineRouter::create(std::vector<MeasuredEngine> cpu,
                                                                 MeasuredEngine device,
                                                                 const CipherSpec& spec,
                                                                 CurveClock clock) {
  cpu.push_back(std::move(device));
  std::shared_ptr<EngineRouter> router(new EngineRouter(std::move(cpu), spec));
  CRYPTIMG_RETURN_IF_ERROR(router->measure_sharing(clock));
  return router;
}

// Tries the share with which both would end at the same time, were the CPU not also needed to feed
// the device: how much it is, only the trial tells.
Status EngineRouter::measure_sharing(const CurveClock& clock) {
  std::unique_ptr<CipherSession> session;
  std::vector<std::byte> memory;
  for (const Direction direction : kDirections) {
    for (std::size_t size = size_class(kMinSharedBytes); size < kSizes; ++size) {
      Route& route = routes_[static_cast<std::size_t>(direction)][size];
      const std::size_t bytes = size_bytes(size);
      if (route.engine != device_number()) {
        continue;
      }
      if (bytes > kCurveSizesBytes.back()) {
        route.cpu_share = routes_[static_cast<std::size_t>(direction)][size - 1].cpu_share;
        continue;
      }
      if (session == nullptr) {
        CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, curve_key(spec_));
        CRYPTIMG_ASSIGN_OR_RETURN(session, new_session(spec_, key));
        memory.resize(kCurveSizesBytes.back());
      }
      const nanoseconds alone = engines_.back().curves.of(direction).time_for(bytes);
      const nanoseconds by_cpu = engines_[route.fallback].curves.of(direction).time_for(bytes);
      route.cpu_share =
          static_cast<std::uint8_t>(times(alone, kWhole) / (times(alone, 1) + times(by_cpu, 1)));
      CRYPTIMG_ASSIGN_OR_RETURN(
          const nanoseconds together,
          measure_transform(*session, direction, MutableBytes(memory).first(bytes), clock,
                            kShareLimit));
      if (times(together, 1) > times(alone, kWorthSharing)) {
        route.cpu_share = 0;
      }
    }
  }
  return {};
}

std::optional<std::size_t> EngineRouter::chosen_from(Direction direction, unsigned engine) const {
  std::optional<std::size_t> from;
  for (auto size = kCurveSizesBytes.rbegin(); size != kCurveSizesBytes.rend(); ++size) {
    if (*size < spec_.sector_size_bytes || route(direction, *size).engine != engine) {
      break;
    }
    from = *size;
  }
  return from;
}

bool EngineRouter::uses(unsigned engine) const {
  return std::any_of(routes_.begin(), routes_.end(), [&](const auto& of_direction) {
    return std::any_of(of_direction.begin(), of_direction.end(), [&](const Route& route) {
      return route.engine == engine || (route.cpu_share > 0 && route.fallback == engine);
    });
  });
}

std::string EngineRouter::description() const {
  std::string text = "each extent by the engine that is fastest at its size";
  for (const MeasuredEngine& measured : engines_) {
    text += (&measured == &engines_.front() ? ": " : "; ") + measured.engine->description();
  }
  return text;
}

Status EngineRouter::supports(const CipherSpec& spec) const {
  if (!(spec == spec_)) {
    return fail(Errc::unavailable, "the engines were measured for " + cipher_name(spec_));
  }
  return {};
}

EngineLimits EngineRouter::limits() const {
  EngineLimits limits = engines_.front().engine->limits();
  for (const MeasuredEngine& measured : engines_) {
    const EngineLimits others = measured.engine->limits();
    limits.alignment_bytes = std::max(limits.alignment_bytes, others.alignment_bytes);
    limits.max_bytes = std::min(limits.max_bytes, others.max_bytes);
  }
  return limits;
}

DriverCounters EngineRouter::driver_counters() const noexcept {
  return device().driver_counters();
}

Result<std::unique_ptr<CipherSession>> EngineRouter::new_session(const CipherSpec& spec,
                                                                 const Secret& key) const {
  CRYPTIMG_RETURN_IF_ERROR(supports(spec));
  std::vector<std::unique_ptr<CipherSession>> sessions(engines_.size());
  // The device's first: it may fork, which is to be before there are key schedules.
  for (std::size_t engine = engines_.size(); engine-- > 0;) {
    CRYPTIMG_ASSIGN_OR_RETURN(sessions[engine], engines_[engine].engine->new_session(spec, key));
  }
  return std::make_unique<Session>(shared_from_this(), std::move(sessions));
}

}  // namespace cryptimg
