// SPDX-License-Identifier: GPL-3.0-or-later
//
// What "auto" takes where there is hardware: over a fake kernel, and a CPU engine that is made
// slow. And the whole way of an image's bytes through it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "core/engine_router.h"
#include "engines/engine_table.h"
#include "tests/engines/engine_cases.h"
#include "tests/support/image_fixture.h"
#include "tests/support/memory_device.h"

namespace cryptimg::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// openssl, but a hundred times as slow as the fake kernel's driver, whatever the machine.
class SlowEngine final : public CipherEngine {
 public:
  explicit SlowEngine(std::shared_ptr<const CipherEngine> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] std::string_view name() const override { return "slow"; }
  [[nodiscard]] std::string description() const override { return "openssl, slowly"; }
  [[nodiscard]] Status supports(const CipherSpec& spec) const override {
    return inner_->supports(spec);
  }
  [[nodiscard]] Result<std::unique_ptr<CipherSession>> new_session(
      const CipherSpec& spec, const Secret& key) const override {
    CRYPTIMG_ASSIGN_OR_RETURN(auto session, inner_->new_session(spec, key));
    return std::make_unique<Session>(std::move(session), transforms_);
  }
  [[nodiscard]] unsigned transforms() const { return *transforms_; }

 private:
  class Session final : public CipherSession {
   public:
    Session(std::unique_ptr<CipherSession> inner, std::shared_ptr<std::atomic<unsigned>> transforms)
        : inner_(std::move(inner)), transforms_(std::move(transforms)) {}
    Status transform(Direction direction, std::uint64_t first_sector, Bytes source,
                     MutableBytes target) noexcept override {
      ++*transforms_;
      std::this_thread::sleep_for(microseconds(source.size()));
      return inner_->transform(direction, first_sector, source, target);
    }

   private:
    std::unique_ptr<CipherSession> inner_;
    std::shared_ptr<std::atomic<unsigned>> transforms_;
  };

  const std::shared_ptr<const CipherEngine> inner_;
  const std::shared_ptr<std::atomic<unsigned>> transforms_ =
      std::make_shared<std::atomic<unsigned>>(0);
};

class AutoEngine : public ::testing::Test {
 protected:
  void make(AlgMode mode) {
    kernel_ = std::make_shared<FakeAlgKernel>(mode);
    AfalgOptions options;
    options.patience = milliseconds(2000);
    options.on_warning = [this](const std::string& warning) { warnings_.push_back(warning); };
    table_ = {slow_, make_afalg_engine(kernel_, options)};
  }
  std::shared_ptr<const CipherEngine> chosen() const {
    return make_engine_of(table_, "auto", spec_).value();
  }

  CipherSpec spec_{CipherMode::aes_xts, IvMode::plain64, 64, 4096};
  const ByteVector key_ = random_bytes(64, 1);
  std::shared_ptr<SlowEngine> slow_ =
      std::make_shared<SlowEngine>(make_engine("openssl", spec_).value());
  std::shared_ptr<FakeAlgKernel> kernel_;
  EngineTable table_;
  std::vector<std::string> warnings_;
};

TEST_F(AutoEngine, TakesHardwareThatIsFaster) {
  make(AlgMode::ecb);
  const auto engine = chosen();
  EXPECT_EQ(engine->name(), "slow+afalg");
  const auto infos = measure_engines_of(table_, spec_);
  ASSERT_EQ(infos.size(), 2U);
  EXPECT_TRUE(infos[1].usable && infos[1].chosen);
  EXPECT_LE(infos[1].reads_from_bytes.value(), 65536U);
  EXPECT_LE(infos[1].writes_from_bytes.value(), 65536U);
  EXPECT_NE(infos[1].reason.find("fastest here for reads of"), std::string::npos);
  EXPECT_FALSE(infos[0].reads_from_bytes);
  EXPECT_EQ(infos[0].rates.front().size_bytes, 4096U);
}

TEST_F(AutoEngine, LeavesHardwareThatIsSlower) {
  make(AlgMode::cbc);
  table_[0] = make_engine("openssl", spec_).value();
  EXPECT_EQ(chosen()->name(), "openssl");
  const auto infos = measure_engines_of(table_, spec_);
  EXPECT_TRUE(infos[0].chosen && !infos[1].chosen && infos[1].usable);
  EXPECT_EQ(infos[0].writes_from_bytes, 4096U);
  EXPECT_NE(infos[1].reason.find("no size clearly faster"), std::string::npos);
  EXPECT_FALSE(infos[1].rates.empty());
}

TEST_F(AutoEngine, LeavesHardwareThatFailsInItsTestOrWhileItIsMeasured) {
  make(AlgMode::ecb);
  static_cast<void>(known_answer_test(*table_[1], spec_));
  const unsigned tested = kernel_->operations();
  for (const AlgFault fault : {AlgFault::hang, AlgFault::lie, AlgFault::busy, AlgFault::die}) {
    for (const unsigned nth : {1U, tested + 1}) {
      if (fault == AlgFault::lie && nth > 1) {
        continue;  // is caught by a sample, some time
      }
      make(AlgMode::ecb);
      AfalgOptions options;
      options.trial_patience = milliseconds(100);
      options.on_trial = std::make_shared<std::atomic<bool>>(true);
      table_[1] = make_afalg_engine(kernel_, options);
      kernel_->order(fault, nth, 1'000'000);
      EXPECT_EQ(chosen()->name(), "slow") << static_cast<unsigned>(fault) << " at " << nth;
      EXPECT_GE(kernel_->faults(), 1U);
    }
  }
}

TEST_F(AutoEngine, WithoutHardwareOrSocketsIsTheCpus) {
  make(AlgMode::ecb);
  kernel_->forbid();
  EXPECT_EQ(chosen()->name(), "slow");
  const auto infos = measure_engines_of(table_, spec_);
  EXPECT_FALSE(infos[1].usable);
  EXPECT_TRUE(infos[1].rates.empty());
  EXPECT_FALSE(infos[0].rates.empty());
}

// All of the image, in requests of a quarter.
void read_all(EncryptedImage& image, Bytes right) {
  const std::size_t quarter = right.size() / 4;
  for (std::size_t at = 0; at < right.size(); at += quarter) {
    TestRequest read(image, IoRequest::Kind::read, at, quarter);
    ASSERT_TRUE(read.run(image));
    ASSERT_TRUE(std::equal(read.bytes().begin(), read.bytes().end(), right.subspan(at).begin()));
  }
}

TEST_F(AutoEngine, AnImageGoesThroughTheHardwareAndOutlivesItsHang) {
  make(AlgMode::ecb);
  const auto engine = chosen();
  ASSERT_EQ(engine->name(), "slow+afalg");
  constexpr std::size_t kSize = std::size_t{1} << 20;
  auto device = std::make_unique<MemoryDevice>(kSize);
  MemoryDevice& disk = *device;
  ImageOptions options;
  options.size_bytes = kSize;
  options.workers = 2;
  auto image =
      EncryptedImage::create(std::move(device), *engine, spec_, secret(key_), options, 2).value();

  const DriverCounters before = engine->driver_counters();
  const unsigned by_cpu = slow_->transforms();
  const ByteVector plain = random_bytes(kSize, 3);
  TestRequest write(*image, IoRequest::Kind::write, 0, kSize, plain);
  ASSERT_TRUE(write.run(*image));
  const ByteVector stored(disk.content().begin(), disk.content().end());
  EXPECT_EQ(stored, transformed(*session_for(*engine_for("openssl", spec_), spec_, key_),
                                Direction::encrypt, 0, plain));
  read_all(*image, plain);
  const DriverCounters after = engine->driver_counters();
  EXPECT_GE((after.bytes - before.bytes) * 100, 2 * kSize * 95);
  EXPECT_EQ(after.fallbacks, 0U);

  // It hangs under load: every byte is read all the same, and it is not asked again.
  kernel_->order(AlgFault::hang, 3, 1'000'000);
  std::thread other([&] { read_all(*image, plain); });
  read_all(*image, plain);
  other.join();
  EXPECT_EQ(engine->driver_counters().quarantines, 1U);
  EXPECT_GE(engine->driver_counters().fallbacks, 1U);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_GT(slow_->transforms(), by_cpu);
  const unsigned operations = kernel_->operations();
  read_all(*image, plain);
  EXPECT_EQ(kernel_->operations(), operations);
}

}  // namespace
}  // namespace cryptimg::test
