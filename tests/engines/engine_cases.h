// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the engine tests share: every engine with every cipher as test parameters, and sessions,
// keys and data for them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/cipher_engine.h"
#include "engines/afalg_engine.h"
#include "engines/block_algebra.h"
#include "engines/engines.h"
#include "tests/support/fake_alg_kernel.h"

namespace cryptimg::test {

using ByteVector = std::vector<std::byte>;

inline constexpr std::array kSectorSizes = {512U, 1024U, 2048U, 4096U};
inline constexpr std::array kDirections = {Direction::encrypt, Direction::decrypt};
// The counter at which `plain` wraps.
inline constexpr std::uint64_t kPlainWrap = std::uint64_t{1} << 32;

// Every cipher and key size that is served, with 512-byte sectors.
inline std::vector<CipherSpec> every_cipher() {
  std::vector<CipherSpec> specs;
  for (const IvMode iv : {IvMode::plain, IvMode::plain64, IvMode::essiv_sha256}) {
    for (const CipherMode mode : {CipherMode::aes_xts, CipherMode::aes_cbc}) {
      for (const std::uint32_t key : {16U, 24U, 32U, 64U}) {
        const CipherSpec spec{mode, iv, key, 512};
        if (check_spec(spec)) {
          specs.push_back(spec);
        }
      }
    }
  }
  return specs;
}

inline std::vector<std::string> every_engine() {
  std::vector<std::string> names;
  for (const EngineInfo& info : list_engines(CipherSpec{})) {
    names.push_back(info.name);
  }
  return names;
}

// The afalg engine over a fake kernel whose only driver has one mode; by a name of its own.
struct FakeDriver {
  const char* name;
  AlgMode mode;
};
inline constexpr std::array kFakeDrivers = {FakeDriver{"fake_ecb_driver", AlgMode::ecb},
                                            FakeDriver{"fake_cbc_driver", AlgMode::cbc},
                                            FakeDriver{"fake_xts_driver", AlgMode::xts}};

// Engines and ciphers for suites that every engine has to pass: those of the registry, and afalg
// over fake drivers where these serve the cipher.
inline std::vector<std::tuple<std::string, CipherSpec>> every_engine_and_cipher() {
  std::vector<std::tuple<std::string, CipherSpec>> all;
  for (const CipherSpec& spec : every_cipher()) {
    for (const std::string& name : every_engine()) {
      all.emplace_back(name, spec);
    }
    for (const FakeDriver& driver : kFakeDrivers) {
      if (offload_form(spec.mode, driver.mode, Direction::decrypt) != OffloadForm::none) {
        all.emplace_back(driver.name, spec);
      }
    }
  }
  return all;
}

// The engine called `name`, or null where it does not serve `spec` on this machine. One that serves
// it but fails its known-answer test fails the test: it must not be skipped unnoticed.
inline std::shared_ptr<const CipherEngine> engine_for(const std::string& name,
                                                      const CipherSpec& spec) {
  for (const FakeDriver& driver : kFakeDrivers) {
    if (name == driver.name) {
      auto fake = make_afalg_engine(std::make_shared<FakeAlgKernel>(driver.mode), {});
      EXPECT_TRUE(known_answer_test(*fake, spec));
      return fake;
    }
  }
  auto engine = make_engine(name, spec);
  if (engine) {
    return std::move(*engine);
  }
  EXPECT_EQ(engine.error().message.find("known-answer test"), std::string::npos)
      << engine.error().message;
  return nullptr;
}

// A parameter's name: letters, digits and underscores only.
inline std::string identifier(std::string name) {
  for (char& c : name) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    c = fits ? c : '_';
  }
  return name;
}

// Reproducible bytes that look random.
inline ByteVector random_bytes(std::size_t size_bytes, std::uint32_t seed) {
  std::mt19937 generator(seed);
  ByteVector bytes(size_bytes);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(generator());
  }
  return bytes;
}

inline Secret secret(Bytes key) {
  Result<Secret> copy = Secret::copy_of(key);
  EXPECT_TRUE(copy);
  return std::move(copy).value();
}

// A session, or null with the test failed.
inline std::unique_ptr<CipherSession> session_for(const CipherEngine& engine,
                                                  const CipherSpec& spec, Bytes key) {
  Result<std::unique_ptr<CipherSession>> session = engine.new_session(spec, secret(key));
  if (!session) {
    ADD_FAILURE() << session.error().message;
    return nullptr;
  }
  return std::move(*session);
}

// What `session` makes of `source`, apart.
inline ByteVector transformed(CipherSession& session, Direction direction,
                              std::uint64_t first_sector, Bytes source) {
  ByteVector target(source.size());
  EXPECT_TRUE(session.transform(direction, first_sector, source, target));
  return target;
}

}  // namespace cryptimg::test
