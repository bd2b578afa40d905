// SPDX-License-Identifier: GPL-3.0-or-later
//
// What is measured of engines whose rates are known, on a clock that only they move.
#include "core/engine_curve.h"

#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>

#include "tests/support/model_engine.h"

namespace cryptimg::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const CipherSpec kSpec{CipherMode::aes_xts, IvMode::plain64, 64, 512};

TEST(EngineCurve, IsWhatTheEngineTakesInEachDirection) {
  ModelClock time;
  const ModelEngine engine("model", time, {10'000, 2, 3});
  const auto curves = measure_engine(engine, kSpec, time.clock());
  ASSERT_TRUE(curves);
  ASSERT_EQ(curves->decrypt.points().size(), kCurveSizesBytes.size());
  for (const std::size_t size : {512U, 4096U, 20000U, 65536U, 100000U, 131072U}) {
    const auto bytes = static_cast<std::int64_t>(size);
    EXPECT_LE(std::abs(curves->decrypt.time_for(size).count() - 10'000 - 2 * bytes), 2) << size;
    EXPECT_LE(std::abs(curves->encrypt.time_for(size).count() - 10'000 - 3 * bytes), 2) << size;
  }
  EXPECT_NEAR(curves->decrypt.bytes_per_second(65536), 65536 / 141072e-9, 1e3);
  EXPECT_EQ(&curves->of(Direction::encrypt), &curves->encrypt);
}

TEST(EngineCurve, GoesOnInProportionBeyondWhatWasMeasured) {
  const EngineCurve curve({{4096, microseconds(10)}, {16384, microseconds(30)}});
  EXPECT_EQ(curve.time_for(512), microseconds(10));
  EXPECT_EQ(curve.time_for(10240), microseconds(20));
  EXPECT_EQ(curve.time_for(16384), microseconds(30));
  EXPECT_EQ(curve.time_for(65536), microseconds(120));
}

TEST(EngineCurve, NoSizeIsSmallerThanASector) {
  ModelClock time;
  const ModelEngine engine("model", time, {});
  CipherSpec spec = kSpec;
  spec.sector_size_bytes = 4096;
  const auto curves = measure_engine(engine, spec, time.clock());
  ASSERT_TRUE(curves);
  EXPECT_EQ(curves->encrypt.points().front().size_bytes, 4096U);
}

TEST(EngineCurve, ASlowEngineIsMeasuredNoLongerThanTheBudget) {
  ModelClock time;
  // 10 ms for a sector: the budget is gone after the first sizes.
  const ModelEngine engine("model", time, {10e6, 1, 1});
  const auto curves = measure_engine(engine, kSpec, time.clock());
  ASSERT_TRUE(curves);
  EXPECT_LT(curves->decrypt.points().size(), kCurveSizesBytes.size());
  EXPECT_GE(curves->decrypt.points().size(), 1U);
  // In each direction, the two transforms of the size under way when the time is over still end.
  EXPECT_LE(time.now, kCurveBudget + 4 * milliseconds(11));
}

TEST(EngineCurve, WhatADriverLeavesToTheCpuIsNotItsRate) {
  ModelClock time;
  const ModelEngine engine("model", time, {});
  engine.counts().has_driver = true;
  const auto curves = measure_engine(engine, kSpec, time.clock());
  ASSERT_TRUE(curves);
  EXPECT_FALSE(curves->decrypt.empty());
  EXPECT_TRUE(curves->encrypt.empty());
}

TEST(EngineCurve, AnEngineThatFailsHasNone) {
  ModelClock time;
  const ModelEngine engine("model", time, {});
  engine.counts().fails = true;
  EXPECT_FALSE(measure_engine(engine, kSpec, time.clock()));
}

}  // namespace
}  // namespace cryptimg::test
