// SPDX-License-Identifier: GPL-3.0-or-later
//
// FakeEngine: an involution instead of a cipher, that depends on sector number and position, so
// that a chunk ciphered under a wrong number is seen. Its sessions check what the contract of
// CipherSession asks of the pipeline (whole sectors, one thread at a time, limits) and count
// violations. Tests steer it through FakeControl.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "core/cipher_engine.h"

namespace cryptimg::test {

// Shared by an engine, its sessions and the test; must outlive them.
struct FakeControl {
  std::atomic<std::uint64_t> transforms{0};
  std::atomic<std::uint64_t> violations{0};
  std::atomic<std::uint64_t> fail_at{0};  // the call, counted from 1, that fails; 0: none
  std::size_t max_bytes = SIZE_MAX;
  std::size_t alignment_bytes = 1;
  std::size_t preferred_bytes = EngineLimits().preferred_bytes;
  // Called on the ciphering thread before each transform. Set before the image is made.
  std::function<void()> on_transform;
};

// What the session does to one sector, for tests that look at the device. Eight bytes at a time,
// for the sake of ThreadSanitizer's cost per access. REQUIRES: source and target equal or disjoint.
inline void fake_cipher_sector(std::uint64_t sector, Bytes source, MutableBytes target) {
  for (std::size_t position = 0; position < source.size(); position += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, source.data() + position, sizeof word);
    word ^= (sector + 1) * 0x9E3779B97F4A7C15U + position * 0xD1B54A32D192ED03U;
    std::memcpy(target.data() + position, &word, sizeof word);
  }
}

class FakeEngine final : public CipherEngine {
 public:
  explicit FakeEngine(FakeControl& control) : control_(control) {}

  [[nodiscard]] std::string_view name() const override { return "fake"; }
  [[nodiscard]] std::string description() const override { return "no cipher at all"; }
  [[nodiscard]] Status supports(const CipherSpec& /*spec*/) const override { return {}; }
  [[nodiscard]] EngineLimits limits() const override {
    EngineLimits limits;
    limits.max_bytes = control_.max_bytes;
    limits.alignment_bytes = control_.alignment_bytes;
    limits.preferred_bytes = control_.preferred_bytes;
    return limits;
  }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& /*key*/) const override {
    return std::make_unique<Session>(control_, spec.sector_size_bytes);
  }

 private:
  class Session final : public CipherSession {
   public:
    Session(FakeControl& control, std::uint32_t sector_size_bytes)
        : control_(control), sector_size_bytes_(sector_size_bytes) {}

    Status transform(Direction /*direction*/, std::uint64_t first_sector, Bytes source,
                     MutableBytes target) noexcept override {
      const bool alone = !busy_.exchange(true);
      const bool sizes = source.size() == target.size() && !source.empty() &&
                         source.size() % sector_size_bytes_ == 0 &&
                         source.size() <= control_.max_bytes;
      if (!alone || !sizes) {
        ++control_.violations;
      }
      if (control_.on_transform) {
        control_.on_transform();
      }
      Status status;
      if (++control_.transforms == control_.fail_at) {
        std::memset(target.data(), 0, target.size());
        status = fail(Errc::io, {}, EIO);
      } else {
        for (std::size_t done = 0; done < source.size(); done += sector_size_bytes_) {
          fake_cipher_sector(first_sector + done / sector_size_bytes_,
                             source.subspan(done, sector_size_bytes_),
                             target.subspan(done, sector_size_bytes_));
        }
      }
      busy_ = false;
      return status;
    }

   private:
    FakeControl& control_;
    const std::uint32_t sector_size_bytes_;
    std::atomic<bool> busy_{false};
  };

  FakeControl& control_;
};

}  // namespace cryptimg::test
