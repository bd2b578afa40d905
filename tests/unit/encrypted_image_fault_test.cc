// SPDX-License-Identifier: GPL-3.0-or-later
//
// A device or engine that fails: each request completes once, with the right error, with nothing
// served, and the image works afterwards.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "tests/support/image_fixture.h"

namespace cryptimg::test {
namespace {

using Call = FaultyDevice::Call;
using Fault = FaultyDevice::Fault;
using Kind = IoRequest::Kind;

constexpr std::uint64_t kSize = 65536;
constexpr std::uint32_t kChunk = 4096;
constexpr std::uint64_t kChunks = kSize / kChunk;

// Every case with the caller alone and with helpers.
class ImageFaultTest : public ImageTest, public ::testing::WithParamInterface<unsigned> {
 protected:
  void SetUp() override {
    make(kSize, GetParam(), kChunk);
    ASSERT_TRUE(write(0, filled(kSize, 0x42)));
  }

  void expect_read_fails(int os_errno) {
    TestRequest request(*image_, Kind::read, 100, kSize - 200);
    const Status status = request.run(*image_);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::io);
    EXPECT_EQ(status.error().os_errno, os_errno);
    EXPECT_EQ(request.completions(), 1U);
    EXPECT_TRUE(std::all_of(request.buffer().begin(), request.buffer().end(),
                            [](std::byte byte) { return byte == std::byte{}; }));
  }

  // Everything can be read, and written again.
  void expect_works() {
    ASSERT_TRUE(write(0, filled(kSize, 0x43)));
    EXPECT_EQ(read(0, kSize), filled(kSize, 0x43));
    ASSERT_TRUE(write(0, filled(kSize, 0x42)));
  }
};

TEST_P(ImageFaultTest, EachReadOfTheDeviceMayFail) {
  for (std::uint64_t nth = 1; nth <= kChunks; ++nth) {
    device_->set(Call::read, Fault::error, nth, EREMOTEIO);
    expect_read_fails(EREMOTEIO);
    device_->set(Call::read, Fault::short_transfer, nth);
    expect_read_fails(EIO);
    device_->set(Call::read, Fault::none, 0);
    expect_works();
  }
  EXPECT_EQ(image_->counters().read_errors, 2 * kChunks);
}

TEST_P(ImageFaultTest, EachTransformOfAReadMayFail) {
  for (std::uint64_t nth = 1; nth <= kChunks; ++nth) {
    control_.fail_at = control_.transforms + nth;
    expect_read_fails(EIO);
    control_.fail_at = 0;
  }
  expect_works();
}

TEST_P(ImageFaultTest, EachWriteOfTheDeviceMayFail) {
  for (std::uint64_t nth = 1; nth <= kChunks; ++nth) {
    for (const Fault fault : {Fault::error, Fault::short_transfer}) {
      const std::uint64_t before = image_->write_sequence();
      device_->set(Call::write, fault, nth, ENOSPC);
      TestRequest request(*image_, Kind::write, 0, kSize, filled(kSize, 7));
      const Status status = request.run(*image_);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, fault == Fault::error ? Errc::no_space : Errc::io);
      EXPECT_EQ(request.completions(), 1U);
      // What did get there still has to be flushed.
      EXPECT_EQ(image_->write_sequence(), before + 1);
      device_->set(Call::write, Fault::none, 0);
      expect_works();
    }
  }
  EXPECT_EQ(image_->counters().write_errors, 2 * kChunks);
}

TEST_P(ImageFaultTest, AFailedTransformIsNotWritten) {
  control_.fail_at = control_.transforms + 1;
  ASSERT_FALSE(write(0, filled(512, 7)));
  EXPECT_EQ(read(0, 512), filled(512, 0x42));
}

TEST_P(ImageFaultTest, AFailedReadBeforeAPartialWriteWritesNothing) {
  const std::uint64_t writes = memory_->writes();
  for (std::uint64_t nth = 1; nth <= 2; ++nth) {
    device_->set(Call::read, Fault::error, nth);
    EXPECT_EQ(write(100, filled(3 * kChunk, 7)).error().code, Errc::io);
    device_->set(Call::read, Fault::none, 0);
    control_.fail_at = control_.transforms + nth;
    EXPECT_EQ(write(100, filled(3 * kChunk, 7)).error().code, Errc::io);
    control_.fail_at = 0;
  }
  EXPECT_EQ(memory_->writes(), writes);
  EXPECT_EQ(read(0, kSize), filled(kSize, 0x42));
  expect_works();
}

TEST_P(ImageFaultTest, AFailedFlushIsSticky) {
  ASSERT_TRUE(image_->flush());
  const std::uint64_t flushed = image_->flushed_sequence();
  ASSERT_TRUE(write(0, filled(512, 0x42)));
  device_->set(Call::flush, Fault::error, 1, EREMOTEIO);
  EXPECT_EQ(image_->flush().error().os_errno, EREMOTEIO);
  device_->set(Call::flush, Fault::none, 0);
  EXPECT_EQ(image_->flush().error().os_errno, EREMOTEIO);
  EXPECT_EQ(image_->flush_if_dirty().error().os_errno, EREMOTEIO);
  EXPECT_EQ(image_->flush_state().error().os_errno, EREMOTEIO);
  EXPECT_EQ(write(0, filled(512, 0x42), true).error().os_errno, EREMOTEIO);
  EXPECT_EQ(image_->flushed_sequence(), flushed);
  EXPECT_EQ(image_->counters().flush_errors, 1U);
  EXPECT_EQ(device_->calls(Call::flush), 0U) << "there is nothing left to ask the device";
  expect_works();
}

TEST_P(ImageFaultTest, ADurableWriteThatCannotBeFlushedFailsAndIsSticky) {
  device_->set(Call::flush, Fault::error, 1);
  TestRequest request(*image_, Kind::write, 0, kSize, filled(kSize, 0x42));
  request.request().durable = true;
  EXPECT_EQ(request.run(*image_).error().code, Errc::io);
  EXPECT_EQ(request.completions(), 1U);
  EXPECT_FALSE(image_->flush_state());
  expect_works();
}

TEST_P(ImageFaultTest, ZeroStopsAtTheFirstFailure) {
  std::vector<std::byte> scratch(kChunk);
  device_->set(Call::write, Fault::error, 3, ENOSPC);
  EXPECT_EQ(image_->zero(0, kSize, scratch).error().code, Errc::no_space);
  EXPECT_EQ(device_->calls(Call::write), 3U);
  EXPECT_EQ(read(0, 2 * kChunk), filled(2 * kChunk, 0));
  EXPECT_EQ(read(2 * kChunk, kSize - 2 * kChunk), filled(kSize - 2 * kChunk, 0x42));
}

INSTANTIATE_TEST_SUITE_P(Workers, ImageFaultTest, ::testing::Values(0U, 3U));

}  // namespace
}  // namespace cryptimg::test
