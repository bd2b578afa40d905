// SPDX-License-Identifier: GPL-3.0-or-later
//
// Faults at any call of any request, under load: each request ends once, with an errno that its own
// range has met; nothing of a failed read is served; what is said to have worked has; and no fault
// outlives its request, but for a failed flush. What single faults do is
// unit/encrypted_image_fault_test.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "engines/engines.h"
#include "tests/model/random.h"
#include "tests/support/faulty_engine.h"
#include "tests/support/image_fixture.h"
#include "tests/support/storm_device.h"

namespace cryptimg::test {
namespace {

using Kind = IoRequest::Kind;

constexpr unsigned kThreads = 3;
constexpr std::uint32_t kSectorBytes = 1024;
constexpr std::uint64_t kShareBytes = 64 * kSectorBytes;  // each thread's own
constexpr std::uint64_t kSizeBytes = kThreads * kShareBytes;
constexpr int kRounds = 1500;

struct Tally {
  std::atomic<std::uint64_t> good{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> by_engine{0};
};

class FaultStorm : public ::testing::TestWithParam<unsigned> {
 protected:
  void make(std::uint64_t seed) {
    CipherSpec spec;
    spec.sector_size_bytes = kSectorBytes;
    auto inner = make_engine("openssl", spec);
    ASSERT_TRUE(inner);
    engine_ = std::make_unique<FaultyEngine>(*inner);
    auto memory = std::make_unique<MemoryDevice>(kSizeBytes);
    memory_ = memory.get();
    auto storm = std::make_unique<StormDevice>(std::move(memory), kSectorBytes, seed);
    storm_ = storm.get();
    auto faulty = std::make_unique<FaultyDevice>(std::move(storm));
    faulty_ = faulty.get();
    std::vector<std::byte> key(spec.key_size_bytes);
    model::fill(key, seed);
    auto secret = Secret::copy_of(key);
    ASSERT_TRUE(secret);
    ImageOptions options;
    options.size_bytes = kSizeBytes;
    options.workers = GetParam();
    options.max_read_size_bytes = options.max_write_size_bytes = 4 * kSectorBytes;
#ifndef __SANITIZE_THREAD__
    // Not there: fills hold no range, and over plain memory meet writes; what they got is dropped.
    options.readahead_bytes = 1U << 20;
#endif
    auto image =
        EncryptedImage::create(std::move(faulty), *engine_, spec, *secret, options, kThreads);
    ASSERT_TRUE(image);
    image_ = std::move(*image);
  }
  void TearDown() override {
    image_.reset();
  }

  std::unique_ptr<FaultyEngine> engine_;
  MemoryDevice* memory_ = nullptr;  // all three owned by the image
  StormDevice* storm_ = nullptr;
  FaultyDevice* faulty_ = nullptr;
  std::unique_ptr<EncryptedImage> image_;
};

// One thread's share of the image, and what has to be in it.
class Sailor {
 public:
  Sailor(EncryptedImage& image, StormDevice& storm, FaultyEngine& engine, unsigned number,
         Tally& tally)
      : image_(image),
        storm_(storm),
        engine_(engine),
        begin_(number * kShareBytes),
        model_(kShareBytes),
        random_(number + 1),
        tally_(tally) {
    model::fill(model_, number);
    TestRequest first(image, Kind::write, begin_, kShareBytes, model_);
    EXPECT_TRUE(first.run(image));
  }

  void sail() {
    for (int round = 0; round < kRounds && !::testing::Test::HasFatalFailure(); ++round) {
      if (random_.percent(3)) {
        engine_.order(Fault::error, random_.between(1, 8));
      }
      const std::uint64_t offset = random_.below(kShareBytes);
      const std::uint64_t length =
          random_.between(1, std::min<std::uint64_t>(kShareBytes - offset, 12 * kSectorBytes));
      if (random_.percent(50)) {
        write(offset, length);
      } else {
        read(offset, length);
      }
    }
  }

  // In a calm: all is there.
  void check() {
    TestRequest request(image_, Kind::read, begin_, kShareBytes);
    ASSERT_TRUE(request.run(image_));
    ASSERT_TRUE(std::equal(model_.begin(), model_.end(), request.bytes().begin()));
  }

 private:
  // Whether the error is one that this request can have met since `faults` and `engine_faults`.
  bool is_deserved(const Error& error, std::uint64_t offset, std::uint64_t length,
                   std::size_t faults, std::uint64_t engine_faults) {
    if (error.code == Errc::unavailable) {
      ++tally_.by_engine;
      return engine_.faults() > engine_faults;
    }
    const ByteExtent extent = image_.cover(begin_ + offset, length);
    const auto met = storm_.faults_in(faults, extent.offset_bytes, extent.length_bytes);
    return error.code == errc_from_errno(error.os_errno) &&
           std::any_of(met.begin(), met.end(), [&](const StormDevice::Fault& fault) {
             return fault.os_errno == error.os_errno;
           });
  }

  void read(std::uint64_t offset, std::uint64_t length) {
    const std::size_t faults = storm_.faults();
    const std::uint64_t engine_faults = engine_.faults();
    TestRequest request(image_, Kind::read, begin_ + offset, length);
    const Status status = request.run(image_);
    ASSERT_EQ(request.completions(), 1U);
    if (status) {
      ++tally_.good;
      const auto there = model_.begin() + static_cast<std::ptrdiff_t>(offset);
      ASSERT_TRUE(std::equal(request.bytes().begin(), request.bytes().end(), there))
          << "a read that worked is wrong";
      return;
    }
    ++tally_.failed;
    ASSERT_TRUE(is_deserved(status.error(), offset, length, faults, engine_faults))
        << status.error().os_errno;
    ASSERT_TRUE(std::all_of(request.buffer().begin(), request.buffer().end(), [](std::byte byte) {
      return byte == std::byte{};
    })) << "something of a failed read is served";
  }

  void write(std::uint64_t offset, std::uint64_t length) {
    std::vector<std::byte> content(length);
    model::fill(content, random_.next());
    const std::size_t faults = storm_.faults();
    const std::uint64_t engine_faults = engine_.faults();
    const std::uint64_t before = image_.write_sequence();
    TestRequest request(image_, Kind::write, begin_ + offset, length, content);
    const Status status = request.run(image_);
    ASSERT_EQ(request.completions(), 1U);
    ASSERT_GT(image_.write_sequence(), before) << "what failed may be there and has to be flushed";
    if (status) {
      ++tally_.good;
      std::copy(content.begin(), content.end(),
                model_.begin() + static_cast<std::ptrdiff_t>(offset));
      return;
    }
    ++tally_.failed;
    ASSERT_TRUE(is_deserved(status.error(), offset, length, faults, engine_faults))
        << status.error().os_errno;
    take_what_is_there(offset, content);
  }

  // After a failed write: each sector is old or new, bytes beside the written ones are old.
  void take_what_is_there(std::uint64_t offset, const std::vector<std::byte>& content) {
    std::vector<std::byte> updated = model_;
    std::copy(content.begin(), content.end(),
              updated.begin() + static_cast<std::ptrdiff_t>(offset));
    const std::uint64_t end = offset + content.size();
    for (std::uint64_t at = round_down(offset, kSectorBytes); at < end; at += kSectorBytes) {
      const auto is = [&](const std::vector<std::byte>& whole, const TestRequest& found) {
        return std::equal(found.bytes().begin(), found.bytes().end(),
                          whole.begin() + static_cast<std::ptrdiff_t>(at));
      };
      for (;;) {
        TestRequest found(image_, Kind::read, begin_ + at, kSectorBytes);
        if (!found.run(image_)) {
          continue;  // the storm again
        }
        ASSERT_TRUE(is(model_, found) || is(updated, found))
            << "a failed write left a sector neither old nor new";
        std::copy(found.bytes().begin(), found.bytes().end(),
                  model_.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
    }
  }

  EncryptedImage& image_;
  StormDevice& storm_;
  FaultyEngine& engine_;
  const std::uint64_t begin_;
  std::vector<std::byte> model_;
  model::Random random_;
  Tally& tally_;
};

TEST_P(FaultStorm, EachRequestEndsOnceAndTellsTheTruth) {
  make(GetParam() + 1);
  Tally tally;
  std::vector<std::unique_ptr<Sailor>> sailors;
  for (unsigned number = 0; number < kThreads; ++number) {
    sailors.push_back(std::make_unique<Sailor>(*image_, *storm_, *engine_, number, tally));
  }
  storm_->set_chance(15);
  std::vector<std::thread> threads;
  for (const auto& sailor : sailors) {
    threads.emplace_back([&sailor] { sailor->sail(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  storm_->set_chance(0);
  engine_->release();
  for (const auto& sailor : sailors) {
    sailor->check();
  }
  EXPECT_TRUE(image_->flush()) << "no flush has failed";
  EXPECT_GT(tally.good, kRounds / 2);
  EXPECT_GT(tally.failed, kRounds / 2);
  EXPECT_GT(tally.by_engine, 0U);
  EXPECT_GT(storm_->faults(), std::size_t{kRounds} / 2);
  EXPECT_EQ(image_->in_flight(), 0U);
  const ImageCounters counters = image_->counters();
  EXPECT_GE(counters.read_errors + counters.write_errors, tally.failed.load());
}

// Durable writes and flushes of several threads; one flush of the device fails. From the moment
// that anybody has been told, nobody is told anything else; and writes that ask for no flush work
// on.
TEST_P(FaultStorm, OneFailedFlushIsToldToEverybodyForEver) {
  for (const int os_errno : {EIO, ENOSPC, EDQUOT}) {
    make(7);
    faulty_->set(FaultyDevice::Call::flush, FaultyDevice::Fault::error, 20, os_errno);
    std::atomic<bool> told{false};
    std::atomic<std::uint64_t> good{0};
    std::atomic<std::uint64_t> refused{0};
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        model::Random random(number);
        const std::vector<std::byte> content(3000, std::byte{1});
        for (int round = 0; round < 60; ++round) {
          const bool was_told = told;
          TestRequest request(*image_, Kind::write, number * kShareBytes + random.below(9000),
                              content.size(), content);
          request.request().durable = random.percent(50);
          const bool asks = request.request().durable;
          Status status = request.run(*image_);
          if (!asks) {
            ASSERT_TRUE(status) << "a write that asks for no flush";
            status = random.percent(50) ? image_->flush() : image_->flush_if_dirty();
          }
          if (status) {
            ASSERT_FALSE(was_told) << "a flush worked after one had failed";
            ++good;
          } else {
            ASSERT_EQ(status.error().os_errno, os_errno);
            told = true;
            ++refused;
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_GT(good, 0U);
    EXPECT_GT(refused, 0U);
    EXPECT_EQ(faulty_->calls(FaultyDevice::Call::flush), 20U) << "the device was asked again";
    EXPECT_EQ(image_->counters().flush_errors, 1U);
    image_.reset();
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, FaultStorm, ::testing::Values(0U, 2U));

}  // namespace
}  // namespace cryptimg::test
