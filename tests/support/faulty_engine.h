// SPDX-License-Identifier: GPL-3.0-or-later
//
// FaultyEngine: an engine that goes wrong on order, around one that works. Faults are counted over
// the transforms of all its sessions together, so a test can say "the third from now".
//
// Thread-safe. Sessions may outlive the engine; its destructor lets hung transforms go.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/cipher_engine.h"

namespace cryptimg::test {

enum class Fault : std::uint8_t {
  none,
  error,    // nothing is done: target zeroed, unavailable
  corrupt,  // done, one byte of the target flipped, and success claimed
  hang,     // blocks until release(), then done properly
};

class FaultyEngine final : public CipherEngine {
 public:
  explicit FaultyEngine(std::shared_ptr<const CipherEngine> inner) : inner_(std::move(inner)) {}
  FaultyEngine(const FaultyEngine&) = delete;
  FaultyEngine& operator=(const FaultyEngine&) = delete;
  ~FaultyEngine() override { release(); }

  // The `nth` transform that begins after this call (1 is the next), and the `count - 1` after it,
  // suffer `fault`. Replaces what was ordered before.
  void order(Fault fault, std::uint64_t nth = 1, std::uint64_t count = 1) {
    const std::lock_guard lock(state_->mutex);
    state_->fault = fault;
    state_->first = state_->transforms + nth;
    state_->count = count;
  }
  // Lets hung transforms go, and cancels what was ordered.
  void release() {
    const std::lock_guard lock(state_->mutex);
    state_->fault = Fault::none;
    ++state_->releases;
    state_->changed.notify_all();
  }

  // Transforms begun so far, and faults that happened among them.
  [[nodiscard]] std::uint64_t transforms() const {
    const std::lock_guard lock(state_->mutex);
    return state_->transforms;
  }
  [[nodiscard]] std::uint64_t faults() const {
    const std::lock_guard lock(state_->mutex);
    return state_->faults;
  }
  // Waits until `count` transforms hang at once; false where that has not come within `limit`.
  [[nodiscard]] bool wait_until_hung(std::uint64_t count, std::chrono::milliseconds limit) const {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, limit, [&] { return state_->hung >= count; });
  }

  [[nodiscard]] std::string_view name() const override { return "faulty"; }
  [[nodiscard]] std::string description() const override {
    return "faulty around " + std::string(inner_->name());
  }
  [[nodiscard]] Status supports(const CipherSpec& spec) const override {
    return inner_->supports(spec);
  }
  [[nodiscard]] EngineLimits limits() const override { return inner_->limits(); }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    CRYPTIMG_ASSIGN_OR_RETURN(auto session, inner_->new_session(spec, key));
    return std::make_unique<Session>(std::move(session), state_);
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    // All guarded by mutex.
    Fault fault = Fault::none;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t transforms = 0;
    std::uint64_t faults = 0;
    std::uint64_t hung = 0;
    std::uint64_t releases = 0;

    // Counts a transform and tells its fate, which for a hang it has then suffered.
    Fault begin() {
      std::unique_lock lock(mutex);
      ++transforms;
      if (fault == Fault::none || transforms < first || transforms - first >= count) {
        return Fault::none;
      }
      const Fault fate = fault;
      ++faults;
      if (fate == Fault::hang) {
        const std::uint64_t seen = releases;
        ++hung;
        changed.notify_all();
        changed.wait(lock, [&] { return releases != seen; });
        --hung;
      }
      return fate;
    }
  };

  class Session final : public CipherSession {
   public:
    Session(std::unique_ptr<CipherSession> inner, std::shared_ptr<State> state)
        : inner_(std::move(inner)), state_(std::move(state)) {}

    Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                     MutableBytes target) noexcept override {
      const Fault fault = state_->begin();
      if (fault == Fault::error) {
        wipe(target);
        return fail(Errc::unavailable);
      }
      CRYPTIMG_RETURN_IF_ERROR(inner_->transform(direction, first_sector, source, target));
      if (fault == Fault::corrupt) {
        target[target.size() / 2] ^= std::byte{1};
      }
      return {};
    }

   private:
    std::unique_ptr<CipherSession> inner_;
    std::shared_ptr<State> state_;
  };

  const std::shared_ptr<const CipherEngine> inner_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace cryptimg::test
