// SPDX-License-Identifier: GPL-3.0-or-later
//
// How an engine is chosen, and that one which lies or fails does not pass its known-answer test.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "engines/engine_table.h"
#include "tests/engines/engine_cases.h"
#include "tests/support/faulty_engine.h"

namespace cryptimg::test {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Throws, which fails the test, where there is none.
std::shared_ptr<const CipherEngine> openssl(const CipherSpec& spec) {
  return make_engine("openssl", spec).value();
}

TEST(Registry, AutoTakesTheChosenEngineForEverySpec) {
  for (CipherSpec spec : every_cipher()) {
    for (const std::uint32_t sector_bytes : kSectorSizes) {
      spec.sector_size_bytes = sector_bytes;
      const auto engine = make_engine("auto", spec);
      ASSERT_TRUE(engine) << engine.error().message;
      const auto engines = list_engines(spec);
      const auto chosen = [](const EngineInfo& info) { return info.chosen; };
      ASSERT_EQ(std::count_if(engines.begin(), engines.end(), chosen), 1);
      const auto& info = *std::find_if(engines.begin(), engines.end(), chosen);
      EXPECT_TRUE(info.usable);
      EXPECT_EQ(info.name, (*engine)->name());
    }
  }
}

TEST(Registry, OpensslServesEverySpec) {
  for (CipherSpec spec : every_cipher()) {
    for (const std::uint32_t sector_bytes : kSectorSizes) {
      spec.sector_size_bytes = sector_bytes;
      const auto engine = make_engine("openssl", spec);
      ASSERT_TRUE(engine) << engine.error().message;
      EXPECT_EQ((*engine)->name(), "openssl");
      EXPECT_TRUE(contains((*engine)->description(), "OpenSSL"));
    }
  }
}

TEST(Registry, EveryEngineSaysWhatAndWhy) {
  for (const EngineInfo& info : list_engines(CipherSpec{})) {
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.description.empty()) << info.name;
    EXPECT_FALSE(info.reason.empty()) << info.name;
  }
}

TEST(Registry, UnknownNamesAreRefusedWithTheNamesThereAre) {
  for (const char* name : {"nosuch", "", "OpenSSL", "openssl "}) {
    const auto engine = make_engine(name, CipherSpec{});
    ASSERT_FALSE(engine) << name;
    EXPECT_EQ(engine.error().code, Errc::invalid_argument);
    EXPECT_TRUE(contains(engine.error().message, "auto"));
    for (const std::string& known : every_engine()) {
      EXPECT_TRUE(contains(engine.error().message, known));
    }
  }
}

TEST(Registry, SpecsThatAreNotServedAreUnsupportedAndChooseNothing) {
  const CipherSpec spec{CipherMode::aes_xts, IvMode::plain64, 48, 512};
  for (const char* name : {"auto", "openssl"}) {
    const auto engine = make_engine(name, spec);
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, Errc::unsupported);
    EXPECT_TRUE(contains(engine.error().message, "384 bits"));
  }
  for (const EngineInfo& info : list_engines(spec)) {
    EXPECT_FALSE(info.usable);
    EXPECT_FALSE(info.chosen);
    EXPECT_TRUE(contains(info.reason, "384 bits"));
  }
}

TEST(Registry, EqualXtsHalvesGiveASessionOrASentence) {
  for (const std::string& name : every_engine()) {
    const CipherSpec spec{CipherMode::aes_xts, IvMode::plain64, 64, 512};
    const auto engine = make_engine(name, spec);
    if (!engine) {
      continue;
    }
    const auto session = (*engine)->new_session(spec, secret(ByteVector(64, std::byte{9})));
    if (!session) {
      EXPECT_EQ(session.error().code, Errc::unsupported);
      EXPECT_TRUE(contains(session.error().message, "halves of the volume key are equal"));
    }
  }
}

class EngineChoice : public ::testing::Test {
 protected:
  // A faulty engine that errs in each of its transforms from now on.
  std::shared_ptr<FaultyEngine> failing(Fault fault) {
    auto engine = std::make_shared<FaultyEngine>(openssl(spec_));
    engine->order(fault, 1, UINT64_MAX);
    return engine;
  }

  const CipherSpec spec_{};
};

TEST_F(EngineChoice, AutoMovesOnFromAnEngineThatFailsOrLies) {
  for (const Fault fault : {Fault::corrupt, Fault::error}) {
    const EngineTable table = {failing(fault), openssl(spec_)};
    const auto engine = make_engine_of(table, "auto", spec_);
    ASSERT_TRUE(engine);
    EXPECT_EQ((*engine)->name(), "openssl");
    const auto infos = list_engines_of(table, spec_);
    ASSERT_EQ(infos.size(), 2U);
    EXPECT_FALSE(infos[0].usable || infos[0].chosen);
    EXPECT_TRUE(contains(infos[0].reason, "known-answer test"));
    EXPECT_TRUE(infos[1].usable && infos[1].chosen);
  }
}

TEST_F(EngineChoice, AnEngineAskedForByNameIsNotReplaced) {
  const auto engine = make_engine_of({failing(Fault::corrupt), openssl(spec_)}, "faulty", spec_);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Errc::unavailable);
}

TEST_F(EngineChoice, TheFirstUsableIsChosenAndOnlyIt) {
  const auto good = std::make_shared<FaultyEngine>(openssl(spec_));
  const auto infos = list_engines_of({good, openssl(spec_)}, spec_);
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_TRUE(infos[0].chosen);
  EXPECT_TRUE(infos[1].usable && !infos[1].chosen);
  EXPECT_EQ(infos[1].reason, "usable, but faulty is preferred");
}

TEST_F(EngineChoice, WithoutAUsableOneTheReasonsAreNamed) {
  const auto engine = make_engine_of({failing(Fault::error)}, "auto", spec_);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Errc::unavailable);
  EXPECT_TRUE(contains(engine.error().message, "failed to encipher"));
}

TEST(KnownAnswer, AnEngineThatLiesFailsWhereverItLies) {
  for (const CipherSpec& spec : every_cipher()) {
    FaultyEngine engine(openssl(spec));
    ASSERT_TRUE(known_answer_test(engine, spec));
    const std::uint64_t transforms = engine.transforms();
    ASSERT_GT(transforms, 0U);
    for (const Fault fault : {Fault::corrupt, Fault::error}) {
      for (std::uint64_t nth = 1; nth <= transforms; ++nth) {
        engine.order(fault, nth);
        const Status status = known_answer_test(engine, spec);
        ASSERT_FALSE(status) << cipher_name(spec) << ", transform " << nth;
        EXPECT_EQ(status.error().code, Errc::unavailable);
        EXPECT_TRUE(contains(status.error().message, "the engine faulty"));
        EXPECT_TRUE(contains(status.error().message, cipher_name(spec)));
      }
    }
    engine.release();
    EXPECT_TRUE(known_answer_test(engine, spec));
  }
}

// Takes no more than so much at once.
class NarrowEngine final : public CipherEngine {
 public:
  explicit NarrowEngine(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  [[nodiscard]] std::string_view name() const override { return "narrow"; }
  [[nodiscard]] std::string description() const override { return "for tests"; }
  [[nodiscard]] Status supports(const CipherSpec&) const override { return {}; }
  [[nodiscard]] EngineLimits limits() const override { return {1, max_bytes_}; }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    return openssl(spec)->new_session(spec, key);
  }

 private:
  std::size_t max_bytes_;
};

TEST(KnownAnswer, KeepsToTheEnginesLimit) {
  const CipherSpec spec{CipherMode::aes_xts, IvMode::plain64, 64, 512};
  for (const std::size_t max_bytes : {511U, 512U, 1535U, 1536U, 8191U, 8192U, 8193U}) {
    FaultyEngine engine(std::make_shared<NarrowEngine>(max_bytes));
    EXPECT_EQ(known_answer_test(engine, spec).has_value(), max_bytes >= 512) << max_bytes;
    const std::uint64_t sectors = std::min<std::uint64_t>(max_bytes / 512, 16);
    const std::uint64_t pieces = sectors == 0 ? 0 : (16 + sectors - 1) / sectors;
    EXPECT_EQ(engine.transforms(), 2 * pieces) << max_bytes;
  }
}

// Ciphers rightly, but for another spec than it was asked for.
class ConfusedEngine final : public CipherEngine {
 public:
  explicit ConfusedEngine(const CipherSpec& served) : served_(served), inner_(openssl(served)) {}
  [[nodiscard]] std::string_view name() const override { return "confused"; }
  [[nodiscard]] std::string description() const override { return "for tests"; }
  [[nodiscard]] Status supports(const CipherSpec&) const override { return {}; }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec&, const Secret& key) const override {
    return inner_->new_session(served_, key);
  }

 private:
  CipherSpec served_;
  std::shared_ptr<const CipherEngine> inner_;
};

TEST(KnownAnswer, TellsEverySpecFromEveryOther) {
  std::vector<CipherSpec> specs;
  for (CipherSpec spec : every_cipher()) {
    for (const std::uint32_t sector_bytes : kSectorSizes) {
      spec.sector_size_bytes = sector_bytes;
      specs.push_back(spec);
    }
  }
  for (const CipherSpec& served : specs) {
    const ConfusedEngine engine(served);
    for (const CipherSpec& asked : specs) {
      if (asked.key_size_bytes == served.key_size_bytes) {
        EXPECT_EQ(known_answer_test(engine, asked).has_value(), asked == served)
            << cipher_name(asked) << " " << asked.sector_size_bytes << " by " << cipher_name(served)
            << " " << served.sector_size_bytes;
      }
    }
  }
}

}  // namespace
}  // namespace cryptimg::test
