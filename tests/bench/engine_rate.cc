// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/bench/engine_rate.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>

#include <openssl/evp.h>

#include "core/secret.h"
#include "engines/cpu_features.h"
#include "engines/engines.h"

namespace cryptimg::bench {
namespace {

constexpr const char* kLevelVariable = "CRYPTIMG_CPU";

// CRYPTIMG_CPU for as long as this lives.
class ForcedLevel {
 public:
  explicit ForcedLevel(const char* level) {
    if (const char* before = std::getenv(kLevelVariable)) {
      before_ = before;
    }
    ::setenv(kLevelVariable, level, 1);
  }
  ForcedLevel(const ForcedLevel&) = delete;
  ForcedLevel& operator=(const ForcedLevel&) = delete;
  ~ForcedLevel() {
    if (before_) {
      ::setenv(kLevelVariable, before_->c_str(), 1);
    } else {
      ::unsetenv(kLevelVariable);
    }
  }

 private:
  std::optional<std::string> before_;
};

// Both halves of an XTS key must differ, and the content must not be all zero.
void fill(MutableBytes bytes) {
  unsigned value = 1;
  for (std::byte& byte : bytes) {
    value = value * 1103515245U + 12345U;
    byte = static_cast<std::byte>(value >> 16U);
  }
}

class EngineProbe final : public RateProbe {
 public:
  EngineProbe(std::unique_ptr<CipherSession> session, const RateCase& what)
      : session_(std::move(session)), direction_(what.direction), extent_(what.extent_bytes) {
    fill(extent_);
    sectors_ = extent_.size() / what.spec.sector_size_bytes;
  }

  Status step() noexcept override {
    Status status = session_->transform(direction_, next_sector_, extent_, extent_);
    next_sector_ += sectors_;
    return status;
  }
  [[nodiscard]] std::size_t extent_bytes() const override { return extent_.size(); }

 private:
  std::unique_ptr<CipherSession> session_;
  Direction direction_;
  std::vector<std::byte> extent_;
  std::uint64_t sectors_ = 0;
  std::uint64_t next_sector_ = 0;
};

struct ContextDeleter {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using ContextPtr = std::unique_ptr<EVP_CIPHER_CTX, ContextDeleter>;

class RawCipherProbe final : public RateProbe {
 public:
  RawCipherProbe(ContextPtr context, std::size_t extent_bytes)
      : context_(std::move(context)), extent_(extent_bytes) {
    fill(extent_);
  }

  Status step() noexcept override {
    auto* const bytes = reinterpret_cast<unsigned char*>(extent_.data());
    int done = 0;
    if (EVP_CipherUpdate(context_.get(), bytes, &done, bytes, static_cast<int>(extent_.size())) !=
        1) {
      return fail(Errc::unavailable);
    }
    return {};
  }
  [[nodiscard]] std::size_t extent_bytes() const override { return extent_.size(); }

 private:
  ContextPtr context_;
  std::vector<std::byte> extent_;
};

class CopyProbe final : public RateProbe {
 public:
  explicit CopyProbe(std::size_t extent_bytes) : source_(extent_bytes), target_(extent_bytes) {
    fill(source_);
  }

  Status step() noexcept override {
    std::memcpy(target_.data(), source_.data(), source_.size());
    // The compiler must believe that somebody reads it.
    asm volatile("" : : "r"(target_.data()) : "memory");
    return {};
  }
  [[nodiscard]] std::size_t extent_bytes() const override { return source_.size(); }

 private:
  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
};

Result<std::unique_ptr<RateProbe>> open_raw_cipher(const RateCase& what, Bytes key) {
  const EVP_CIPHER* cipher = nullptr;
  const bool is_xts = what.spec.mode == CipherMode::aes_xts;
  switch (key.size()) {
    case 16:
      cipher = EVP_aes_128_cbc();
      break;
    case 24:
      cipher = EVP_aes_192_cbc();
      break;
    case 32:
      cipher = is_xts ? EVP_aes_128_xts() : EVP_aes_256_cbc();
      break;
    default:
      cipher = EVP_aes_256_xts();
  }
  ContextPtr context(EVP_CIPHER_CTX_new());
  const std::array<unsigned char, 16> iv{};
  if (!context ||
      EVP_CipherInit_ex(context.get(), cipher, nullptr,
                        reinterpret_cast<const unsigned char*>(key.data()), iv.data(),
                        what.direction == Direction::encrypt ? 1 : 0) != 1 ||
      EVP_CIPHER_CTX_set_padding(context.get(), 0) != 1) {
    return fail(Errc::unavailable, "OpenSSL offers no such cipher here");
  }
  return std::make_unique<RawCipherProbe>(std::move(context), what.extent_bytes);
}

// The engine of `line`, at the level that the line names.
Result<std::unique_ptr<RateProbe>> open_engine(const RateCase& what, const Secret& key) {
  std::string engine_name = what.line;
  std::optional<ForcedLevel> forced;
  if (const std::size_t dash = what.line.find('-'); dash != std::string::npos) {
    const std::string level = what.line.substr(dash + 1);
    const VaesLevel wanted = level == "avx2" ? VaesLevel::avx2 : VaesLevel::avx512;
    if (vaes_level() < wanted) {
      return fail(Errc::unavailable, "this CPU has no VAES with " + level);
    }
    engine_name = what.line.substr(0, dash);
    forced.emplace(level.c_str());
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const auto engine, make_engine(engine_name, what.spec));
  CRYPTIMG_ASSIGN_OR_RETURN(auto session, engine->new_session(what.spec, key));
  return std::make_unique<EngineProbe>(std::move(session), what);
}

std::chrono::nanoseconds now(RateClock clock) {
  timespec time = {};
  ::clock_gettime(clock == RateClock::wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

const std::vector<std::string>& rate_lines() {
  static const std::vector<std::string> kLines = {"openssl", "vaes-avx512", "vaes-avx2",
                                                  "raw-cipher", "memcpy"};
  return kLines;
}

Result<std::unique_ptr<RateProbe>> RateProbe::open(const RateCase& what) {
  if (what.line == "memcpy") {
    return std::make_unique<CopyProbe>(what.extent_bytes);
  }
  CRYPTIMG_ASSIGN_OR_RETURN(Secret key, Secret::allocate(what.spec.key_size_bytes));
  fill(key.mutable_bytes());
  if (what.line == "raw-cipher") {
    return open_raw_cipher(what, key.bytes());
  }
  return open_engine(what, key);
}

Result<double> measure_rate(RateProbe& probe, std::chrono::nanoseconds duration, RateClock clock) {
  CRYPTIMG_RETURN_IF_ERROR(probe.step());
  // The clock is asked once in so many steps, about every 256 KiB.
  constexpr std::size_t kBatchBytes = 262144;
  const std::size_t batch = kBatchBytes / probe.extent_bytes() + 1;
  const std::chrono::nanoseconds begin = now(clock);
  std::chrono::nanoseconds taken{0};
  std::uint64_t steps = 0;
  while (taken < duration) {
    for (std::size_t i = 0; i < batch; ++i) {
      CRYPTIMG_RETURN_IF_ERROR(probe.step());
    }
    steps += batch;
    taken = now(clock) - begin;
  }
  const double seconds = std::chrono::duration<double>(taken).count();
  return static_cast<double>(steps) * static_cast<double>(probe.extent_bytes()) / seconds;
}

}  // namespace cryptimg::bench
