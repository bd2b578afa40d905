// SPDX-License-Identifier: GPL-3.0-or-later
//
// The power goes, at any moment of any workload: what was flushed is there, exactly, and each
// sector that was not is old or new.
//   CRYPTIMG_SEED=N   begins with that seed instead of 1. One thread's workload is then the same
//                     again; where several threads meet is up to the machine.
//   CRYPTIMG_SOAK=1   ten times as many cuts, with seeds of their own
#include "tests/reliability/power_cut.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "engines/engines.h"
#include "tests/model/random.h"
#include "tests/reliability/write_history.h"
#include "tests/support/image_fixture.h"
#include "tests/support/recording_device.h"

namespace cryptimg::test {
namespace {

using Kind = IoRequest::Kind;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kScale = 5;  // they are slow: a fifth of the work
#else
constexpr unsigned kScale = 1;
#endif
constexpr unsigned kForms = 8;
constexpr unsigned kWorkloadsEach = 10;
constexpr unsigned kCutsEach = 20'000 / kForms / kWorkloadsEach / kScale;
constexpr unsigned kSectors = 40;
constexpr std::size_t kPartsEach = 3;  // of each thread
constexpr unsigned kBatches = 40;

bool is_soak() {
  return std::getenv("CRYPTIMG_SOAK") != nullptr;
}

std::uint64_t first_seed() {
  if (const char* const given = std::getenv("CRYPTIMG_SEED"); given != nullptr) {
    return std::strtoull(given, nullptr, 10);
  }
  return is_soak() ? static_cast<std::uint64_t>(
                         std::chrono::system_clock::now().time_since_epoch().count())
                   : 1;
}

struct Form {
  CipherMode mode = CipherMode::aes_xts;
  std::uint32_t sector_size_bytes = 512;
  unsigned threads = 1;
  unsigned workers = 0;
};

CipherSpec spec_of(const Form& form) {
  CipherSpec spec;
  spec.mode = form.mode;
  spec.iv = form.mode == CipherMode::aes_xts ? IvMode::plain64 : IvMode::essiv_sha256;
  spec.key_size_bytes = form.mode == CipherMode::aes_xts ? 64 : 32;
  spec.sector_size_bytes = form.sector_size_bytes;
  return spec;
}

// A write under way, as its submitter sees it.
struct Pending {
  Pending(PartHistory& written, EncryptedImage& image, const ByteExtent& range, Bytes content,
          std::uint64_t tick)
      : part(written),
        number(written.begin_write(range.offset_bytes, content, tick)),
        request(image, IoRequest::Kind::write, range.offset_bytes, range.length_bytes, content) {}

  PartHistory& part;
  const std::size_t number;
  TestRequest request;
};

// One random run over an image, and all that is to be known about it afterwards.
class Workload {
 public:
  Workload(const Form& form, std::uint64_t seed)
      : form_(form), spec_(spec_of(form)), seed_(seed), plain_(size_bytes()) {
    model::fill(plain_, seed);
    std::vector<std::byte> key(spec_.key_size_bytes);
    model::fill(key, ~seed);
    auto secret = Secret::copy_of(key);
    auto engine = make_engine("auto", spec_);
    EXPECT_TRUE(secret && engine);
    session_ = std::move(*(*engine)->new_session(spec_, *secret));
    disk_.resize(size_bytes());
    EXPECT_TRUE(session_->transform(Direction::encrypt, 0, plain_, disk_));

    auto memory = std::make_unique<MemoryDevice>(size_bytes());
    std::copy(disk_.begin(), disk_.end(), memory->content().begin());
    auto device = std::make_unique<RecordingDevice>(std::move(memory), clock_, log_);
    ImageOptions options;
    options.size_bytes = size_bytes();
    options.workers = form.workers;
    options.max_read_size_bytes = options.max_write_size_bytes = 2 * spec_.sector_size_bytes;
#ifndef __SANITIZE_THREAD__
    // Not there: fills hold no range, and over plain memory meet writes; what they got is dropped.
    options.readahead_bytes = 1U << 20;
#endif
    auto image =
        EncryptedImage::create(std::move(device), **engine, spec_, *secret, options, form.threads);
    EXPECT_TRUE(image);
    image_ = std::move(*image);

    // Parts that end anywhere, also within a block of 16 bytes.
    model::Random random(seed);
    std::vector<std::uint64_t> ends = {size_bytes()};
    while (ends.size() < kPartsEach * form.threads) {
      const std::uint64_t end = random.between(1, size_bytes() - 1);
      if (std::find(ends.begin(), ends.end(), end) == ends.end()) {
        ends.push_back(end);
      }
    }
    std::sort(ends.begin(), ends.end());
    history_ = std::make_unique<WriteHistory>(spec_, plain_, ends);
  }

  void run() {
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < form_.threads; ++thread) {
      threads.emplace_back([this, thread] { run_thread(thread); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    counters_ = image_->counters();
    image_.reset();
    history_->close();
  }

  // The plaintext of what a disk holds.
  std::vector<std::byte> decrypted(const std::vector<std::byte>& disk) {
    std::vector<std::byte> plain(disk.size());
    EXPECT_TRUE(session_->transform(Direction::decrypt, 0, disk, plain));
    return plain;
  }

  [[nodiscard]] std::uint64_t size_bytes() const {
    return std::uint64_t{kSectors} * spec_.sector_size_bytes;
  }
  [[nodiscard]] std::uint64_t seed() const {
    return seed_;
  }
  [[nodiscard]] std::uint64_t end_tick() const {
    return clock_.now();
  }
  [[nodiscard]] const Form& form() const {
    return form_;
  }
  [[nodiscard]] const std::vector<std::byte>& disk_before() const {
    return disk_;
  }
  [[nodiscard]] DeviceLog& log() {
    return log_;
  }
  [[nodiscard]] const WriteHistory& history() const {
    return *history_;
  }
  [[nodiscard]] const ImageCounters& counters() const {
    return counters_;
  }

 private:
  void run_thread(unsigned thread) {
    model::Random random(model::mix(seed_) + thread);
    for (unsigned batch = 0; batch < kBatches; ++batch) {
      const std::uint64_t what = random.below(20);
      if (what < 12) {
        write_batch(random, thread);
      } else if (what < 14) {
        zero(random, own_part(thread, random.below(kPartsEach)));
      } else if (what < 18) {
        flush(random, thread);
      } else {
        read_back(own_part(thread, random.below(kPartsEach)));
      }
    }
  }

  PartHistory& own_part(unsigned thread, std::size_t index) {
    return history_->part(index * form_.threads + thread);
  }

  // A range of the part: a piece of a sector, whole sectors, or anything.
  ByteExtent range_in(model::Random& random, const PartHistory& part) const {
    const std::uint64_t size = part.end_bytes() - part.begin_bytes();
    std::uint64_t begin = part.begin_bytes() + random.below(size);
    std::uint64_t end = begin + random.between(1, part.end_bytes() - begin);
    if (random.percent(30)) {
      end = std::min(end, begin + random.between(1, 40));
    } else if (random.percent(50)) {
      const std::uint64_t first = *round_up(begin, spec_.sector_size_bytes);
      const std::uint64_t last = round_down(end, spec_.sector_size_bytes);
      if (first < last) {
        begin = first;
        end = last;
      }
    }
    return {begin, end - begin};
  }

  // Some writes at once, each to another part of this thread's.
  void write_batch(model::Random& random, unsigned thread) {
    std::list<Pending> pending;
    std::size_t index = random.below(kPartsEach);
    for (; index < kPartsEach; index += random.between(1, 2)) {
      PartHistory& part = own_part(thread, index);
      const ByteExtent range = range_in(random, part);
      std::vector<std::byte> content(range.length_bytes);
      model::fill(content, random.next());
      Pending& mine = pending.emplace_back(part, *image_, range, content, clock_.tick());
      mine.request.request().durable = random.percent(15);
      image_->submit(mine.request.request());
    }
    for (Pending& each : pending) {
      ASSERT_TRUE(each.request.wait());
      each.part.end_write(each.number, clock_.tick());
      if (each.request.request().durable) {
        each.part.promise(each.number, clock_.tick());
      }
      // As a file that is closed asks.
      const std::uint64_t sequence = image_->write_sequence();
      if (sequence <= image_->flushed_sequence()) {
        each.part.promise(each.number, clock_.tick());
      }
    }
  }

  void zero(model::Random& random, PartHistory& part) {
    const ByteExtent range = range_in(random, part);
    const std::vector<std::byte> content(range.length_bytes);
    std::vector<std::byte> scratch(std::uint64_t{4} * spec_.sector_size_bytes);
    const std::size_t number = part.begin_write(range.offset_bytes, content, clock_.tick());
    ASSERT_TRUE(image_->zero(range.offset_bytes, range.length_bytes, scratch));
    part.end_write(number, clock_.tick());
  }

  void flush(model::Random& random, unsigned /*thread*/) {
    const std::uint64_t called = clock_.tick();
    ASSERT_TRUE(random.percent(50) ? image_->flush() : image_->flush_if_dirty());
    history_->flushed(called, clock_.tick());
  }

  // In pieces one after the other, as a stream.
  void read_back(const PartHistory& part) {
    constexpr std::uint64_t kPieceBytes = 1500;
    for (std::uint64_t at = part.begin_bytes(); at < part.end_bytes(); at += kPieceBytes) {
      const std::uint64_t length = std::min(kPieceBytes, part.end_bytes() - at);
      TestRequest read(*image_, Kind::read, at, length);
      ASSERT_TRUE(read.run(*image_));
      const Bytes expected = part.current(at, length);
      ASSERT_TRUE(std::equal(read.bytes().begin(), read.bytes().end(), expected.begin()))
          << "seed " << seed_ << ": what was written does not read back at " << at;
    }
  }

  const Form form_;
  const CipherSpec spec_;
  const std::uint64_t seed_;
  std::vector<std::byte> plain_;  // at first
  std::vector<std::byte> disk_;   // the same, enciphered
  EventClock clock_;
  DeviceLog log_;
  std::unique_ptr<CipherSession> session_;
  std::unique_ptr<WriteHistory> history_;
  std::unique_ptr<EncryptedImage> image_;
  ImageCounters counters_;
};

struct Tally {
  std::uint64_t cuts = 0;
  std::uint64_t exact = 0;
  std::uint64_t old = 0;
  std::uint64_t fresh = 0;
};

// Cuts a finished workload `cuts` times. Returns the first complaint, empty where there is none.
std::string cut(Workload& workload, unsigned cuts, Tally& tally,
                std::uint32_t unit_bytes = PowerCut::kDiskUnitBytes) {
  const std::uint32_t sector_size = workload.form().sector_size_bytes;
  const PowerCut power(workload.disk_before(), workload.log(), sector_size, unit_bytes);
  model::Random random(~workload.seed());
  std::vector<std::byte> disk;
  for (unsigned round = 0; round < cuts; ++round) {
    // The very end too: there the last flush and what came after it are all there is.
    const std::uint64_t tick = round == 0 ? workload.end_tick() : random.below(workload.end_tick());
    const auto survival = static_cast<Survival>(round % kSurvivals);
    power.restore(tick, survival, random, disk);
    const bool is_torn = survival == Survival::to_units && sector_size > PowerCut::kDiskUnitBytes;
    const WriteHistory::Verdict verdict =
        workload.history().judge(tick, workload.decrypted(disk), is_torn);
    if (!verdict.complaint.empty()) {
      return "seed " + std::to_string(workload.seed()) + ", power cut at tick " +
             std::to_string(tick) + " of " + std::to_string(workload.end_tick()) + ", survival " +
             std::to_string(round % kSurvivals) + ": " + verdict.complaint;
    }
    ++tally.cuts;
    tally.exact += verdict.exact;
    tally.old += verdict.old;
    tally.fresh += verdict.fresh;
  }
  return {};
}

class PowerCutTest : public ::testing::TestWithParam<unsigned> {
 protected:
  static Form form(unsigned number) {
    Form form;
    form.mode = (number & 1U) == 0 ? CipherMode::aes_xts : CipherMode::aes_cbc;
    form.sector_size_bytes = (number & 2U) == 0 ? 512 : 4096;
    form.threads = (number & 4U) == 0 ? 1 : 3;
    form.workers = (number & 4U) == 0 ? 0 : 2;
    return form;
  }
};

TEST_P(PowerCutTest, WhatWasFlushedIsThereAndTheRestIsOldOrNew) {
  Tally tally;
  std::uint64_t partial = 0;
  std::uint64_t flushes = 0;
  const unsigned workloads = kWorkloadsEach * (is_soak() ? 10 : 1);
  for (unsigned round = 0; round < workloads; ++round) {
    const std::uint64_t seed = first_seed() + round;
    SCOPED_TRACE("CRYPTIMG_SEED=" + std::to_string(seed));
    Workload workload(form(GetParam()), seed);
    workload.run();
    EXPECT_EQ(workload.log().overlaps, 0U) << "overlapping writes were under way at once";
    ASSERT_EQ(cut(workload, kCutsEach, tally), "");
    partial += workload.counters().partial_sector_writes;
    flushes += workload.counters().flushes;
  }
  EXPECT_EQ(tally.cuts, std::uint64_t{workloads} * kCutsEach);
  // All kinds of outcome have been met, or nothing was shown.
  EXPECT_GT(tally.exact, tally.cuts);
  EXPECT_GT(tally.old, tally.cuts / 10);
  EXPECT_GT(tally.fresh, tally.cuts / 10);
  EXPECT_GT(partial, workloads);
  EXPECT_GT(flushes, workloads);
}

INSTANTIATE_TEST_SUITE_P(Forms, PowerCutTest, ::testing::Range(0U, kForms));

// The judge itself: faults that it has to see.

TEST(PowerCutJudge, SeesFlushesThatDoNothing) {
  for (unsigned threads : {1U, 3U}) {
    Workload workload({CipherMode::aes_xts, 4096, threads, 0}, first_seed());
    workload.run();
    for (DeviceLog::Flush& flush : workload.log().flushes) {
      flush.ended = 0;
    }
    Tally tally;
    EXPECT_NE(cut(workload, 200, tally), "");
  }
}

// As if each flush had been told to the device before the writes it is to cover had ended there.
TEST(PowerCutJudge, SeesFlushesThatBeginTooEarly) {
  Workload workload({CipherMode::aes_xts, 512, 1, 0}, first_seed());
  workload.run();
  for (DeviceLog::Flush& flush : workload.log().flushes) {
    std::uint64_t before = 0;
    for (const DeviceLog::Write& write : workload.log().writes) {
      before = write.ended < flush.begun ? std::max(before, write.begun) : before;
    }
    flush.begun = before;
  }
  Tally tally;
  EXPECT_NE(cut(workload, 1000, tally), "");
}

TEST(PowerCutJudge, SeesTornSectors) {
  for (const CipherMode mode : {CipherMode::aes_xts, CipherMode::aes_cbc}) {
    Workload workload({mode, 512, 1, 0}, first_seed());
    workload.run();
    Tally tally;
    EXPECT_NE(cut(workload, 200, tally, 128), "");
  }
}

TEST(PowerCutJudge, SeesOneWrongByte) {
  Workload workload({CipherMode::aes_xts, 512, 1, 0}, first_seed());
  workload.run();
  for (DeviceLog::Write& write : workload.log().writes) {
    write.bytes[write.bytes.size() / 2] ^= std::byte{1};
  }
  Tally tally;
  EXPECT_NE(cut(workload, 200, tally), "");
}

}  // namespace
}  // namespace cryptimg::test
