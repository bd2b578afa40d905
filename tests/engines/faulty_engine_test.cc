// SPDX-License-Identifier: GPL-3.0-or-later
//
// The faulty engine does what it is told to, since other tests rest on it.
#include "tests/support/faulty_engine.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tests/engines/engine_cases.h"

namespace cryptimg::test {
namespace {

using std::chrono::milliseconds;

class FaultyEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto inner = make_engine("openssl", spec_);
    ASSERT_TRUE(inner);
    engine_ = std::make_shared<FaultyEngine>(*inner);
    session_ = session_for(*engine_, spec_, key_);
    ASSERT_NE(session_, nullptr);
    const auto plain_session = session_for(**inner, spec_, key_);
    ASSERT_NE(plain_session, nullptr);
    right_ = transformed(*plain_session, Direction::encrypt, 0, data_);
  }

  Status transform() { return session_->transform(Direction::encrypt, 0, data_, target_); }

  const CipherSpec spec_{CipherMode::aes_xts, IvMode::plain64, 64, 512};
  const ByteVector key_ = random_bytes(64, 1);
  const ByteVector data_ = random_bytes(1024, 2);
  ByteVector right_;
  ByteVector target_ = ByteVector(1024);
  std::shared_ptr<FaultyEngine> engine_;
  std::unique_ptr<CipherSession> session_;
};

TEST_F(FaultyEngineTest, ErrsAtTheNthAndAsOftenAsTold) {
  engine_->order(Fault::error, 2, 2);
  EXPECT_TRUE(transform());
  EXPECT_EQ(target_, right_);
  for (int i = 0; i < 2; ++i) {
    const Status status = transform();
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::unavailable);
    EXPECT_EQ(target_, ByteVector(1024));
  }
  EXPECT_TRUE(transform());
  EXPECT_EQ(target_, right_);
  EXPECT_EQ(engine_->transforms(), 4U);
  EXPECT_EQ(engine_->faults(), 2U);
}

TEST_F(FaultyEngineTest, CountsOverAllSessions) {
  const auto other = session_for(*engine_, spec_, key_);
  ASSERT_NE(other, nullptr);
  engine_->order(Fault::error, 2);
  EXPECT_TRUE(other->transform(Direction::encrypt, 0, data_, target_));
  EXPECT_FALSE(transform());
}

TEST_F(FaultyEngineTest, CorruptsOneByteAndClaimsSuccess) {
  engine_->order(Fault::corrupt);
  EXPECT_TRUE(transform());
  int differing = 0;
  for (std::size_t i = 0; i < target_.size(); ++i) {
    differing += target_[i] == right_[i] ? 0 : 1;
  }
  EXPECT_EQ(differing, 1);
}

TEST_F(FaultyEngineTest, HangsUntilReleasedThenAnswersRightly) {
  engine_->order(Fault::hang);
  std::thread hanging([this] { EXPECT_TRUE(transform()); });
  EXPECT_TRUE(engine_->wait_until_hung(1, milliseconds(10'000)));
  EXPECT_FALSE(engine_->wait_until_hung(2, milliseconds(1)));
  const auto other = session_for(*engine_, spec_, key_);
  ASSERT_NE(other, nullptr);
  ByteVector elsewhere(1024);
  EXPECT_TRUE(other->transform(Direction::encrypt, 0, data_, elsewhere));
  engine_->release();
  hanging.join();
  EXPECT_EQ(target_, right_);
  EXPECT_TRUE(transform());
}

TEST_F(FaultyEngineTest, ItsDestructorLetsHungTransformsGo) {
  engine_->order(Fault::hang);
  std::thread hanging([this] { EXPECT_TRUE(transform()); });
  EXPECT_TRUE(engine_->wait_until_hung(1, milliseconds(10'000)));
  engine_.reset();
  hanging.join();
  EXPECT_EQ(target_, right_);
}

}  // namespace
}  // namespace cryptimg::test
