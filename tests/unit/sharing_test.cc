// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/sharing.h"

#include <thread>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "tests/support/fake_engine.h"
#include "tests/support/memory_device.h"

namespace cryptimg::test {
namespace {

TEST(Sharing, HalfOfAnExtentIsWorthFourWakeUps) {
  const SharingThresholds thresholds = sharing_thresholds({1000, 1, 0.5});
  EXPECT_EQ(thresholds.write_bytes, 8000U);
  EXPECT_EQ(thresholds.read_bytes, 16000U);
}

TEST(Sharing, FasterEnginesShareLaterAndWhatCostsNothingIsNeverShared) {
  std::uint64_t before = 0;
  for (const double ns_per_byte : {10.0, 1.0, 0.1, 0.01, 0.0}) {
    const std::uint64_t now = sharing_thresholds({20000, ns_per_byte, ns_per_byte}).read_bytes;
    EXPECT_GT(now, before);
    before = now;
  }
  EXPECT_EQ(before, 1U << 30);
  EXPECT_EQ(sharing_thresholds({0, 1, 1}).read_bytes, 0U);
}

TEST(Sharing, MeasuresEngineAndWakeUp) {
  FakeControl control;
  const auto costs = measure_sharing(FakeEngine(control), CipherSpec(), Secret());
  ASSERT_TRUE(costs);
  EXPECT_GT(costs->wake_ns, 0);
  EXPECT_GT(costs->encrypt_ns_per_byte, 0);
  EXPECT_GT(costs->decrypt_ns_per_byte, 0);
  EXPECT_GE(control.transforms, 2U);
  EXPECT_EQ(control.violations, 0U);
}

TEST(Sharing, KeepsToTheEnginesLimitAndPassesItsErrorOn) {
  FakeControl control;
  control.max_bytes = 8191;
  ASSERT_TRUE(measure_sharing(FakeEngine(control), CipherSpec(), Secret()));
  EXPECT_EQ(control.violations, 0U);
  control.transforms = 0;
  control.fail_at = 1;
  const auto costs = measure_sharing(FakeEngine(control), CipherSpec(), Secret());
  ASSERT_FALSE(costs);
  EXPECT_EQ(costs.error().code, Errc::io);
}

// What the pipeline makes of the thresholds: smaller extents are one chunk, larger ones several.
TEST(Sharing, ExtentsBelowTheThresholdAreOneChunk) {
  constexpr std::uint64_t kSize = 1U << 20;
  FakeControl control;
  ImageOptions options;
  options.size_bytes = kSize;
  options.workers = 1;
  options.min_shared_read_bytes = kSize;
  options.min_shared_write_bytes = kSize / 2;
  auto image = EncryptedImage::create(std::make_unique<MemoryDevice>(kSize), FakeEngine(control),
                                      CipherSpec(), Secret(), options, 1);
  ASSERT_TRUE(image);
  std::vector<std::byte> buffer(kSize);
  const auto chunks_of = [&](IoRequest::Kind kind, std::uint64_t length_bytes) {
    const std::uint64_t before = (*image)->counters().chunks;
    IoRequest request;
    request.kind = kind;
    request.length_bytes = length_bytes;
    request.buffer = MutableBytes(buffer).first(length_bytes);
    std::atomic<bool> done{false};
    request.context = &done;
    request.completion = [](IoRequest& finished, Status status) noexcept {
      EXPECT_TRUE(status);
      auto* flag = static_cast<std::atomic<bool>*>(finished.context);
      flag->store(true);
      flag->notify_one();
    };
    (*image)->submit(request);
    done.wait(false);
    while ((*image)->in_flight() != 0) {
      std::this_thread::yield();
    }
    return (*image)->counters().chunks - before;
  };
  EXPECT_EQ(chunks_of(IoRequest::Kind::read, kSize / 2), 1U);
  EXPECT_EQ(chunks_of(IoRequest::Kind::read, kSize), 8U);
  EXPECT_EQ(chunks_of(IoRequest::Kind::write, kSize / 4), 1U);
  EXPECT_EQ(chunks_of(IoRequest::Kind::write, kSize / 2), 8U);
}

}  // namespace
}  // namespace cryptimg::test
