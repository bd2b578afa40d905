// SPDX-License-Identifier: GPL-3.0-or-later
//
// ModelEngine: an engine of a known rate on a clock of its own, so that what is measured can be
// foretold. It ciphers as FakeEngine does. Used by one thread at a time, all engines on a clock
// too.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "core/cipher_engine.h"
#include "tests/support/fake_engine.h"

namespace cryptimg::test {

struct ModelClock {
  std::chrono::nanoseconds now{0};
  [[nodiscard]] std::function<std::chrono::nanoseconds()> clock() {
    return [this] { return now; };
  }
};

// What a transform takes: so much, and so much a byte, by direction.
struct ModelCost {
  double fixed_ns = 0;
  double decrypt_ns_per_byte = 1;
  double encrypt_ns_per_byte = 1;
};

class ModelEngine final : public CipherEngine {
 public:
  // How begin() goes: not at all; at once, the work going on meanwhile; or doing all the work.
  enum class Begin : std::uint8_t { none, overlaps, blocks };

  ModelEngine(std::string name, ModelClock& clock, ModelCost cost, Begin begin = Begin::none)
      : name_(std::move(name)), clock_(clock), cost_(cost), begin_(begin) {}

  struct Counts {
    std::uint64_t transforms = 0;  // and begins
    std::uint64_t bytes = 0;
    std::uint64_t decrypted_bytes = 0;
    bool given_up = false;
    bool fails = false;
    bool has_driver = false;         // which does what is deciphered only
    std::function<void()> on_begin;  // after begin() has done its part
  };
  [[nodiscard]] Counts& counts() const { return *counts_; }

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string description() const override { return "model " + name_; }
  [[nodiscard]] Status supports(const CipherSpec& /*spec*/) const override { return {}; }
  [[nodiscard]] bool has_driver() const override { return counts_->has_driver; }
  [[nodiscard]] DriverCounters driver_counters() const noexcept override {
    DriverCounters counters;
    counters.bytes = counts_->has_driver ? counts_->decrypted_bytes : counts_->bytes;
    counters.quarantines = counts_->given_up ? 1 : 0;
    return counters;
  }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& /*key*/) const override {
    return std::make_unique<Session>(*this, counts_, spec.sector_size_bytes);
  }

 private:
  class Session final : public CipherSession {
   public:
    Session(const ModelEngine& engine, std::shared_ptr<Counts> counts, std::uint32_t sector_bytes)
        : clock_(engine.clock_),
          cost_(engine.cost_),
          begin_(engine.begin_),
          counts_(std::move(counts)),
          sector_bytes_(sector_bytes) {}

    Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                     MutableBytes target) noexcept override {
      clock_.now += taken(direction, source.size());
      counts_->decrypted_bytes += direction == Direction::decrypt ? source.size() : 0;
      return cipher(first_sector, source, target);
    }
    bool begin(Direction direction, std::uint64_t first_sector, Bytes source,
               MutableBytes target) noexcept override {
      if (begin_ == Begin::none) {
        return false;
      }
      ends_ = clock_.now + taken(direction, source.size());
      if (begin_ == Begin::blocks) {
        clock_.now = ends_;
      }
      result_ = cipher(first_sector, source, target);
      if (counts_->on_begin) {
        counts_->on_begin();
      }
      return true;
    }
    Status finish() noexcept override {
      clock_.now = std::max(clock_.now, ends_);
      return std::exchange(result_, Status());
    }

   private:
    [[nodiscard]] std::chrono::nanoseconds taken(Direction direction, std::size_t bytes) const {
      const double per_byte =
          direction == Direction::decrypt ? cost_.decrypt_ns_per_byte : cost_.encrypt_ns_per_byte;
      return std::chrono::nanoseconds(
          static_cast<std::int64_t>(cost_.fixed_ns + per_byte * static_cast<double>(bytes)));
    }
    Status cipher(std::uint64_t first_sector, Bytes source, MutableBytes target) {
      ++counts_->transforms;
      counts_->bytes += source.size();
      if (counts_->fails) {
        wipe(target);
        return fail(Errc::unavailable);
      }
      for (std::size_t at = 0; at < source.size(); at += sector_bytes_) {
        fake_cipher_sector(first_sector + at / sector_bytes_, source.subspan(at, sector_bytes_),
                           target.subspan(at, sector_bytes_));
      }
      return {};
    }

    ModelClock& clock_;
    const ModelCost cost_;
    const Begin begin_;
    const std::shared_ptr<Counts> counts_;
    const std::uint32_t sector_bytes_;
    std::chrono::nanoseconds ends_{0};
    Status result_;
  };

  const std::string name_;
  ModelClock& clock_;
  const ModelCost cost_;
  const Begin begin_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

}  // namespace cryptimg::test
