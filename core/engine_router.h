// SPDX-License-Identifier: GPL-3.0-or-later
//
// EngineRouter: an engine in front of others. A device that ciphers earns its keep on large extents
// only, if at all, and differently for reads and writes; so each extent goes to the engine that was
// measured to be the fastest at its size, and may be shared between the device and this CPU where
// both together were measured to be faster.
//
// All is measured once, when the router is made. What it learns later is only that the device was
// given up: then the CPU does everything, and the device is not asked again.
//
// As CipherEngine says: immutable, any thread. Its sessions allocate nothing and take no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cipher_engine.h"
#include "core/engine_curve.h"
#include "core/result.h"

namespace cryptimg {

// An engine that passed its test, and how fast it is.
struct MeasuredEngine {
  std::shared_ptr<const CipherEngine> engine;
  EngineCurves curves;
};

class EngineRouter final : public CipherEngine, public std::enable_shared_from_this<EngineRouter> {
 public:
  // Extents by powers of two, from 512 bytes up; larger ones count as the largest.
  static constexpr std::size_t kSizes = 12;
  static constexpr std::size_t size_bytes(std::size_t size_class) {
    return kIvUnitBytes << size_class;
  }
  static std::size_t size_class(std::size_t bytes);

  // What is done with extents of one size, in one direction. Numbers of engines: those on the CPU
  // in their order, then the device.
  struct Route {
    std::uint8_t engine = 0;    // the fastest; the CPU's unless the device is clearly faster
    std::uint8_t fallback = 0;  // the fastest on the CPU
    // Of the extent, in 256ths, what `fallback` does while `engine`, the device, does the rest.
    std::uint8_t cpu_share = 0;
  };

  // Measures whether sharing is worth its while, for a handful of milliseconds.
  // REQUIRES: at least one engine in `cpu`, fewer than 255; all serve `spec`; those in `cpu` never
  // give up, and have curves for both directions. Fails as the engines do.
  static Result<std::shared_ptr<const EngineRouter>> create(std::vector<MeasuredEngine> cpu,
                                                            MeasuredEngine device,
                                                            const CipherSpec& spec,
                                                            CurveClock clock = steady_time);

  [[nodiscard]] const Route& route(Direction direction, std::size_t bytes) const noexcept {
    return routes_[static_cast<std::size_t>(direction)][size_class(bytes)];
  }
  // The smallest measured size from which on, up to the largest, extents go to engine number
  // `engine`, or are shared with it; nothing where the largest does not.
  [[nodiscard]] std::optional<std::size_t> chosen_from(Direction direction, unsigned engine) const;
  // Whether engine number `engine` has any work, as long as the device is not given up.
  [[nodiscard]] bool uses(unsigned engine) const;
  [[nodiscard]] const std::vector<MeasuredEngine>& engines() const { return engines_; }
  [[nodiscard]] std::uint8_t device_number() const noexcept {
    return static_cast<std::uint8_t>(engines_.size() - 1);
  }

  // Of the fastest CPU engine for large reads and the device: "vaes+afalg".
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] Status supports(const CipherSpec& spec) const override;
  [[nodiscard]] EngineLimits limits() const override;
  [[nodiscard]] bool has_driver() const override { return true; }
  // The device's.
  [[nodiscard]] DriverCounters driver_counters() const noexcept override;
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override;

 private:
  class Session;
  using Routes = std::array<std::array<Route, kSizes>, 2>;

  EngineRouter(std::vector<MeasuredEngine> engines, const CipherSpec& spec);

  [[nodiscard]] const CipherEngine& device() const noexcept { return *engines_.back().engine; }
  Status measure_sharing(const CurveClock& clock);

  const std::vector<MeasuredEngine> engines_;  // the device is the last
  const CipherSpec spec_;
  std::string name_;
  Routes routes_{};  // constant once made
  // Sessions at work. Sharing pays where a core would be idle, so not among several.
  mutable std::atomic<unsigned> at_work_{0};
};

}  // namespace cryptimg
