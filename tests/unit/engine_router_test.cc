// SPDX-License-Identifier: GPL-3.0-or-later
//
// Where extents go, by engines of known rates on a clock of their own: the fastest at each size,
// both together where that was measured to be faster, never a device that was given up.
#include "core/engine_router.h"

#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/model_engine.h"

namespace cryptimg::test {
namespace {

using Begin = ModelEngine::Begin;

class EngineRouterTest : public ::testing::Test {
 protected:
  std::shared_ptr<ModelEngine> engine(const std::string& name, ModelCost cost,
                                      Begin begin = Begin::none) {
    return std::make_shared<ModelEngine>(name, time_, cost, begin);
  }
  MeasuredEngine measured(const std::shared_ptr<ModelEngine>& engine) {
    return {engine, measure_engine(*engine, spec_, time_.clock()).value()};
  }
  // Throws, which fails the test, where there is none. Forgets what measuring has counted.
  std::shared_ptr<const EngineRouter> router(const std::vector<std::shared_ptr<ModelEngine>>& cpu,
                                             const std::shared_ptr<ModelEngine>& device) {
    std::vector<MeasuredEngine> all;
    for (const auto& one : cpu) {
      all.push_back(measured(one));
    }
    auto made =
        EngineRouter::create(std::move(all), measured(device), spec_, time_.clock()).value();
    for (const auto& one : cpu) {
      one->counts() = {};
    }
    device->counts() = {};
    return made;
  }
  std::unique_ptr<CipherSession> session(const EngineRouter& router) {
    return router.new_session(spec_, curve_key(spec_).value()).value();
  }
  // In place, from sector 7 on, and judged.
  void transform(CipherSession& session, Direction direction, std::size_t bytes) {
    std::vector<std::byte> data(bytes, std::byte{5});
    ASSERT_TRUE(session.transform(direction, 7, data, data));
    std::vector<std::byte> right(bytes, std::byte{5});
    const std::size_t sector = spec_.sector_size_bytes;
    for (std::size_t at = 0; at < bytes; at += sector) {
      const auto one = MutableBytes(right).subspan(at, sector);
      fake_cipher_sector(7 + at / sector, one, one);
    }
    ASSERT_EQ(data, right) << bytes;
  }

  ModelClock time_;
  CipherSpec spec_{CipherMode::aes_xts, IvMode::plain64, 64, 512};
};

// The device takes 200 microseconds to begin with, and beats the CPU by 35 ns a byte: from 5715
// bytes on.
constexpr ModelCost kCpu{0, 45, 45};
constexpr ModelCost kDevice{200e3, 10, 60};

TEST_F(EngineRouterTest, EachExtentGoesToTheFastestAtItsSize) {
  const auto cpu = engine("cpu", kCpu);
  const auto device = engine("device", kDevice);
  const auto made = router({cpu}, device);
  EXPECT_EQ(made->name(), "cpu+device");
  EXPECT_TRUE(made->uses(1));
  EXPECT_EQ(made->chosen_from(Direction::decrypt, 1), 16384U);
  EXPECT_FALSE(made->chosen_from(Direction::decrypt, 0));
  EXPECT_EQ(made->chosen_from(Direction::encrypt, 0), 512U);
  EXPECT_FALSE(made->chosen_from(Direction::encrypt, 1));

  const auto session = this->session(*made);
  for (const std::size_t bytes : {512U, 1024U, 4096U}) {
    transform(*session, Direction::decrypt, bytes);
  }
  EXPECT_EQ(device->counts().transforms, 0U);
  EXPECT_EQ(cpu->counts().transforms, 3U);
  for (const std::size_t bytes : {16384U, 65536U, 131072U, 1048576U}) {
    transform(*session, Direction::decrypt, bytes);
    transform(*session, Direction::encrypt, bytes);
  }
  EXPECT_EQ(device->counts().transforms, 4U);
  EXPECT_EQ(cpu->counts().transforms, 7U);
}

TEST_F(EngineRouterTest, AmongCpuEnginesTheFastestAtEachSizeToo) {
  const auto steady = engine("steady", {0, 45, 45});
  const auto starting = engine("starting", {50e3, 30, 30});
  const auto made = router({steady, starting}, engine("device", {0, 100, 100}));
  EXPECT_FALSE(made->uses(2));
  EXPECT_EQ(made->route(Direction::decrypt, 512).engine, 0);
  EXPECT_EQ(made->route(Direction::decrypt, 131072).engine, 1);
  EXPECT_EQ(made->chosen_from(Direction::encrypt, 1), 4096U);
  EXPECT_EQ(made->name(), "starting+device");
}

TEST_F(EngineRouterTest, ADeviceThatIsHardlyFasterIsLeftAlone) {
  EXPECT_FALSE(router({engine("cpu", kCpu)}, engine("device", {0, 44, 44}))->uses(1));
  EXPECT_TRUE(router({engine("cpu", kCpu)}, engine("device", {0, 40, 40}))->uses(1));
}

TEST_F(EngineRouterTest, ADeviceThatServesOneDirectionHasOnlyThat) {
  const auto device = engine("device", {0, 10, 10});
  device->counts().has_driver = true;
  const auto made = router({engine("cpu", kCpu)}, device);
  EXPECT_EQ(made->chosen_from(Direction::decrypt, 1), 512U);
  EXPECT_EQ(made->chosen_from(Direction::encrypt, 0), 512U);
}

TEST_F(EngineRouterTest, BothTogetherWhereThatIsFaster) {
  const auto cpu = engine("cpu", {0, 30, 30});
  const auto device = engine("device", {0, 10, 10}, Begin::overlaps);
  const auto made = router({cpu}, device);
  const auto session = this->session(*made);
  const std::chrono::nanoseconds before = time_.now;
  transform(*session, Direction::decrypt, 131072);
  // A quarter by the CPU, both ending together.
  EXPECT_EQ(cpu->counts().bytes, 32768U);
  EXPECT_EQ(device->counts().bytes, 98304U);
  EXPECT_EQ((time_.now - before).count(), 983'040);
  // Too small to share.
  transform(*session, Direction::decrypt, 4096);
  EXPECT_EQ(device->counts().bytes, 98304U + 4096);
  // Whatever the size, each sector is ciphered once, under its own number.
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    transform(*session, round % 2 == 0 ? Direction::decrypt : Direction::encrypt,
              (1 + random() % 300) * 512);
  }
}

TEST_F(EngineRouterTest, NoSharingWhereItWasMeasuredNotToPay) {
  for (const auto& [begin, cost] : {std::pair{Begin::blocks, 30.0}, std::pair{Begin::none, 30.0},
                                    std::pair{Begin::overlaps, 200.0}}) {
    const auto cpu = engine("cpu", {0, cost, cost});
    const auto device = engine("device", {0, 10, 10}, begin);
    const auto made = router({cpu}, device);
    transform(*session(*made), Direction::decrypt, 131072);
    EXPECT_EQ(cpu->counts().bytes, 0U);
    EXPECT_EQ(device->counts().bytes, 131072U);
  }
}

TEST_F(EngineRouterTest, NoSharingWhileOthersAreAtWork) {
  const auto cpu = engine("cpu", {0, 30, 30});
  const auto device = engine("device", {0, 10, 10}, Begin::overlaps);
  const auto made = router({cpu}, device);
  const auto first = session(*made);
  const auto second = session(*made);
  bool is_inside = false;
  device->counts().on_begin = [&] {
    if (!std::exchange(is_inside, true)) {
      transform(*second, Direction::decrypt, 65536);
    }
  };
  transform(*first, Direction::decrypt, 131072);
  ASSERT_TRUE(is_inside);
  EXPECT_EQ(cpu->counts().bytes, 32768U);
  EXPECT_EQ(device->counts().bytes, 98304U + 65536U);
}

TEST_F(EngineRouterTest, ADeviceThatWasGivenUpIsNeverAskedAgain) {
  const auto slow = engine("slow", {0, 60, 60});
  const auto cpu = engine("cpu", kCpu);
  const auto device = engine("device", {0, 10, 10}, Begin::overlaps);
  const auto made = router({slow, cpu}, device);
  const auto session = this->session(*made);
  device->counts().given_up = true;
  for (const std::size_t bytes : {512U, 65536U, 1048576U}) {
    transform(*session, Direction::decrypt, bytes);
    transform(*session, Direction::encrypt, bytes);
  }
  EXPECT_EQ(device->counts().transforms, 0U);
  EXPECT_EQ(slow->counts().transforms, 0U);
  EXPECT_EQ(cpu->counts().transforms, 6U);
  EXPECT_EQ(made->driver_counters().quarantines, 1U);
}

TEST_F(EngineRouterTest, AFailureOfEitherPartIsTheExtents) {
  for (const bool device_fails : {false, true}) {
    const auto cpu = engine("cpu", {0, 30, 30});
    const auto device = engine("device", {0, 10, 10}, Begin::overlaps);
    const auto made = router({cpu}, device);
    (device_fails ? device : cpu)->counts().fails = true;
    std::vector<std::byte> data(131072, std::byte{5});
    EXPECT_FALSE(session(*made)->transform(Direction::decrypt, 0, data, data));
    EXPECT_EQ(data, std::vector<std::byte>(131072));
    // Nothing is left under way or counted as at work.
    (device_fails ? device : cpu)->counts().fails = false;
    device->counts().bytes = 0;
    transform(*session(*made), Direction::decrypt, 131072);
    EXPECT_EQ(device->counts().bytes, 98304U);
  }
}

TEST_F(EngineRouterTest, ServesOnlyWhatItWasMeasuredFor) {
  const auto made = router({engine("cpu", kCpu)}, engine("device", kDevice));
  CipherSpec other = spec_;
  other.sector_size_bytes = 4096;
  EXPECT_FALSE(made->supports(other));
  EXPECT_FALSE(made->new_session(other, curve_key(other).value()));
}

TEST_F(EngineRouterTest, SessionsOutliveIt) {
  auto made = router({engine("cpu", kCpu)}, engine("device", kDevice));
  const auto session = this->session(*made);
  made.reset();
  transform(*session, Direction::decrypt, 65536);
}

}  // namespace
}  // namespace cryptimg::test
