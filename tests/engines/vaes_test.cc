// SPDX-License-Identifier: GPL-3.0-or-later
//
// The vaes engine beside the openssl engine: equal on a hundred thousand random extents at every
// level this CPU has, and the routines that ran are those that were asked for.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engines/cpu_features.h"
#include "engines/engines.h"
#include "tests/engines/engine_cases.h"

namespace cryptimg::test {
namespace {

// Sanitizers look at how the code behaves, not at every value; the routines they slow down most.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kExtents = 2'000;
#else
constexpr std::size_t kExtents = 100'000;
#endif

// Forces a level for as long as it lives.
class ForcedLevel {
 public:
  explicit ForcedLevel(const char* level) {
    if (const char* now = std::getenv("CRYPTIMG_CPU")) {
      before_ = now;
    }
    ::setenv("CRYPTIMG_CPU", level, 1);
  }
  ~ForcedLevel() {
    before_.empty() ? ::unsetenv("CRYPTIMG_CPU") : ::setenv("CRYPTIMG_CPU", before_.c_str(), 1);
  }
  ForcedLevel(const ForcedLevel&) = delete;
  ForcedLevel& operator=(const ForcedLevel&) = delete;

 private:
  std::string before_;
};

struct Level {
  const char* name;
  VaesLevel level;
};

class VaesAtLevel : public ::testing::TestWithParam<Level> {
 protected:
  VaesAtLevel() : forced_(GetParam().name) {}
  void SetUp() override {
    if (vaes_level() != GetParam().level) {
      GTEST_SKIP() << "this CPU has no " << GetParam().name << " VAES";
    }
  }

 private:
  ForcedLevel forced_;
};

Secret random_key(std::mt19937_64& random, std::size_t size_bytes) {
  Secret key = Secret::allocate(size_bytes).value();
  for (std::byte& byte : key.mutable_bytes()) {
    byte = static_cast<std::byte>(random());
  }
  return key;
}

TEST_P(VaesAtLevel, EqualsOpensslOnRandomExtents) {
  constexpr std::size_t kExtentsPerKey = 500;
  constexpr std::size_t kMaxBytes = 80 * 1024;
  constexpr std::uint64_t kSeed = 20240601;
  std::mt19937_64 random(kSeed);
  std::vector<std::byte> source(kMaxBytes + 64);
  for (std::byte& byte : source) {
    byte = static_cast<std::byte>(random());
  }
  std::vector<std::byte> expected(kMaxBytes + 64);
  std::vector<std::byte> actual(kMaxBytes + 64);
  const std::vector<CipherSpec> ciphers = every_cipher();
  std::size_t done = 0;
  for (std::size_t round = 0; done < kExtents; ++round) {
    CipherSpec spec = ciphers[round % ciphers.size()];
    spec.sector_size_bytes = 512U << (random() % 4);
    const Secret key = random_key(random, spec.key_size_bytes);
    const auto openssl = make_engine("openssl", spec).value()->new_session(spec, key).value();
    const auto vaes = make_engine("vaes", spec).value()->new_session(spec, key).value();
    for (std::size_t i = 0; i < kExtentsPerKey; ++i, ++done) {
      const std::size_t max_sectors = random() % 20 == 0 ? kMaxBytes / spec.sector_size_bytes : 20;
      const std::size_t sectors =
          1 + random() % std::min(max_sectors, kMaxBytes / spec.sector_size_bytes);
      const std::size_t bytes = sectors * spec.sector_size_bytes;
      const std::uint64_t first = random() >> (16 + random() % 44);
      const auto direction = random() % 2 == 0 ? Direction::encrypt : Direction::decrypt;
      const Bytes from = Bytes(source).subspan(random() % 64, bytes);
      const MutableBytes wanted = MutableBytes(expected).subspan(random() % 64, bytes);
      const MutableBytes to = MutableBytes(actual).subspan(random() % 64, bytes);
      const bool in_place = random() % 2 == 0;
      if (in_place) {
        std::copy(from.begin(), from.end(), to.begin());
      }
      ASSERT_TRUE(openssl->transform(direction, first, from, wanted));
      ASSERT_TRUE(vaes->transform(direction, first, in_place ? Bytes(to) : from, to));
      ASSERT_TRUE(std::equal(to.begin(), to.end(), wanted.begin()))
          << cipher_name(spec) << ", " << spec.key_size_bytes << "-byte key, " << sectors
          << " sectors of " << spec.sector_size_bytes << " from " << first << ", extent " << done;
    }
  }
}

TEST_P(VaesAtLevel, RunsTheRoutinesOfThatLevelAndNoOther) {
  const CipherSpec spec{};
  const Level asked = GetParam();
  const VaesLevel other = asked.level == VaesLevel::avx2 ? VaesLevel::avx512 : VaesLevel::avx2;
  std::mt19937_64 random(1);
  const auto engine = make_engine("auto", spec).value();
  ASSERT_EQ(engine->name(), "vaes");
  const auto session = engine->new_session(spec, random_key(random, 64)).value();
  const std::uint64_t asked_before = vaes_transforms(asked.level);
  const std::uint64_t other_before = vaes_transforms(other);
  std::vector<std::byte> bytes(spec.sector_size_bytes);
  ASSERT_TRUE(session->transform(Direction::encrypt, 0, bytes, bytes));
  EXPECT_EQ(vaes_transforms(asked.level), asked_before + 1);
  EXPECT_EQ(vaes_transforms(other), other_before);
}

INSTANTIATE_TEST_SUITE_P(Levels, VaesAtLevel,
                         ::testing::Values(Level{"avx2", VaesLevel::avx2},
                                           Level{"avx512", VaesLevel::avx512}),
                         [](const auto& level) { return std::string(level.param.name); });

TEST(Vaes, ForcedOffLeavesOpensslWithAReason) {
  const ForcedLevel none("none");
  EXPECT_EQ(vaes_level(), VaesLevel::none);
  EXPECT_EQ(make_engine("auto", CipherSpec{}).value()->name(), "openssl");
  const auto vaes = make_engine("vaes", CipherSpec{});
  ASSERT_FALSE(vaes);
  EXPECT_EQ(vaes.error().code == Errc::unavailable || vaes.error().code == Errc::invalid_argument,
            true);
  const auto engines = list_engines(CipherSpec{});
  EXPECT_EQ(std::count_if(engines.begin(), engines.end(),
                          [](const EngineInfo& info) { return info.chosen; }),
            1);
}

}  // namespace
}  // namespace cryptimg::test
