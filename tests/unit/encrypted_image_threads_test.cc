// SPDX-License-Identifier: GPL-3.0-or-later
//
// An image under many threads. The memory device copies without locks, so under ThreadSanitizer a
// range lock that lets a writer meet anybody is a reported race.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "tests/support/image_fixture.h"

namespace cryptimg::test {
namespace {

using Call = FaultyDevice::Call;
using Fault = FaultyDevice::Fault;
using Kind = IoRequest::Kind;

// Lets no thread go on before `wanted` of them are there at once; from then on lets all pass.
class Meeting {
 public:
  explicit Meeting(std::size_t wanted) : wanted_(wanted) {}
  void attend() {
    std::unique_lock lock(mutex_);
    present_.insert(std::this_thread::get_id());
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(10), [this] { return met(); });
  }
  bool took_place() {
    const std::lock_guard lock(mutex_);
    return met();
  }

 private:
  [[nodiscard]] bool met() const { return present_.size() >= wanted_; }

  const std::size_t wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::thread::id> present_;  // guarded by mutex_
};

TEST_F(ImageTest, OneRequestIsCipheredByCallerAndWorkersAtOnce) {
  for (const Kind kind : {Kind::read, Kind::write}) {
    Meeting meeting(3);
    control_.on_transform = [&] { meeting.attend(); };
    make(65536, 2, 4096);
    const std::vector<std::byte> payload = filled(65536, 1);
    TestRequest request(*image_, kind, 0, payload.size(), payload);
    ASSERT_TRUE(request.run(*image_));
    EXPECT_TRUE(meeting.took_place());
    EXPECT_EQ(request.completions(), 1U);
    EXPECT_EQ(image_->counters().chunks, 16U);
    image_.reset();
  }
}

TEST_F(ImageTest, ASingleChunkStaysOnTheCallersThread) {
  std::set<std::thread::id> seen;
  control_.on_transform = [&] { seen.insert(std::this_thread::get_id()); };
  make(65536, 2, 4096);
  EXPECT_EQ(read(0, 4096), filled(4096, 0));
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_EQ(image_->counters().chunks_by_workers, 0U);
}

// The only worker hangs in the first request. The second must not wait for it.
TEST_F(ImageTest, ARequestDoesNotWaitForABusyWorker) {
  std::mutex mutex;
  std::condition_variable changed;
  bool hung = false;
  bool released = false;
  const std::thread::id main_thread = std::this_thread::get_id();
  std::atomic<bool> armed{true};
  control_.on_transform = [&] {
    std::unique_lock lock(mutex);
    if (std::this_thread::get_id() != main_thread && armed.exchange(false)) {
      hung = true;
      changed.notify_all();
      changed.wait(lock, [&] { return released; });
    } else if (!hung) {
      changed.wait_for(lock, std::chrono::seconds(10), [&] { return hung; });
    }
  };
  make(65536, 1, 4096);
  TestRequest first(*image_, Kind::read, 0, 32768);
  image_->submit(first.request());
  EXPECT_EQ(first.completions(), 0U) << "a worker still has a chunk of it";
  EXPECT_EQ(image_->in_flight(), 1U);
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(read(0, 65536), filled(65536, 0));
  }
  EXPECT_EQ(first.completions(), 0U);
  {
    const std::lock_guard lock(mutex);
    released = true;
    changed.notify_all();
  }
  EXPECT_TRUE(first.wait());
  EXPECT_EQ(first.completions(), 1U);
}

TEST_F(ImageTest, DisjointRangesAgreeWithAModelEach) {
  constexpr unsigned kThreads = 4;
  constexpr std::uint64_t kShare = 100'000;  // shares meet inside sectors
  make(409'600, 2, 4096, 2);
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937_64 random(id);
      std::vector<std::byte> model(kShare);
      for (int round = 0; round < 500; ++round) {
        const std::uint64_t offset = random() % kShare;
        const std::uint64_t length = 1 + random() % std::min<std::uint64_t>(20000, kShare - offset);
        const auto there = model.begin() + static_cast<std::ptrdiff_t>(offset);
        if (random() % 2 == 0) {
          const std::vector<std::byte> payload = filled(length, static_cast<unsigned>(random()));
          ASSERT_TRUE(write(id * kShare + offset, payload));
          std::copy(payload.begin(), payload.end(), there);
        } else {
          const std::vector<std::byte> expected(there, there + static_cast<std::ptrdiff_t>(length));
          ASSERT_EQ(read(id * kShare + offset, length), expected);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Each write fills whole sectors with one value, each sector read must have one value throughout.
TEST_F(ImageTest, AReaderSeesEachSectorOldOrNew) {
  constexpr std::uint64_t kSectors = 64;
  make(kSectors * kSectorBytes, 2, 2048, 3);
  std::atomic<int> writers{2};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 2; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937_64 random(id);
      for (int round = 0; round < 800; ++round) {
        const std::uint64_t first = random() % kSectors;
        const std::uint64_t count = 1 + random() % std::min<std::uint64_t>(32, kSectors - first);
        ASSERT_TRUE(write(first * kSectorBytes,
                          filled(count * kSectorBytes, static_cast<unsigned>(random()))));
      }
      --writers;
    });
  }
  for (unsigned id = 0; id < 2; ++id) {
    threads.emplace_back([&] {
      while (writers > 0) {
        const std::vector<std::byte> seen = read(0, kSectors * kSectorBytes);
        for (std::uint64_t sector = 0; sector < kSectors; ++sector) {
          const auto begin = seen.begin() + static_cast<std::ptrdiff_t>(sector * kSectorBytes);
          ASSERT_TRUE(std::all_of(begin, begin + kSectorBytes,
                                  [&](std::byte byte) { return byte == *begin; }));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Two writers of different bytes of one sector: neither may lose the other's.
TEST_F(ImageTest, PartialWritesOfOneSectorAreOrdered) {
  make(4 * kSectorBytes, 1);
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      const std::uint64_t offset = 480 + id * 17;  // in two sectors
      for (unsigned round = 0; round < 1000; ++round) {
        ASSERT_TRUE(write(offset, filled(17, round)));
        ASSERT_EQ(read(offset, 17), filled(17, round));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(ImageTest, CompletionsAndErrorsAreExactlyOneEachUnderLoad) {
  make(1 << 20, 2, 4096, 2);
  std::atomic<std::uint64_t> failures{0};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      std::mt19937_64 random(id);
      for (int round = 0; round < 200; ++round) {
        if (round % 5 == 0) {
          device_->set(Call::read, Fault::error, 1 + random() % 30);
        }
        TestRequest request(*image_, Kind::read, random() % 800'000, 1 + random() % 200'000);
        const Status status = request.run(*image_);
        failures += status ? 0 : 1;
        ASSERT_EQ(request.completions(), 1U);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(failures, 0U);
  EXPECT_EQ(image_->counters().read_errors, failures);
  EXPECT_EQ(image_->counters().reads + failures, 800U);
}

TEST_F(ImageTest, AStalledWriteHoldsUpItsOwnRangeOnly) {
  make(4 << 20, 1, 4096, 3);
  device_->set(Call::write, Fault::stall, 1);
  TestRequest slow(*image_, Kind::write, 0, 512, filled(512, 1));
  std::thread writer([&] { image_->submit(slow.request()); });
  device_->wait_until_stalled();
  EXPECT_EQ(read(512, 512), filled(512, 0));
  TestRequest racing(*image_, Kind::read, 0, 512);
  std::thread reader([&] { image_->submit(racing.request()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(racing.completions(), 0U);
  device_->release();
  EXPECT_TRUE(slow.wait());
  EXPECT_TRUE(racing.wait());
  EXPECT_EQ(racing.bytes().front(), std::byte{1});
  writer.join();
  reader.join();
}

TEST_F(ImageTest, TheRangeIsFreeWhenTheCompletionRuns) {
  make(65536, 1, 4096, 2);
  struct Probe {
    EncryptedImage& image;
    bool inner_done = false;
    std::array<std::byte, 512> inner_memory{};
    IoRequest inner{};
  } probe{*image_};
  std::vector<std::byte> memory(512);
  IoRequest outer;
  outer.kind = Kind::write;
  outer.length_bytes = 512;
  outer.buffer = memory;
  outer.context = &probe;
  outer.completion = [](IoRequest& done, Status) noexcept {
    Probe& mine = *static_cast<Probe*>(done.context);
    mine.inner.kind = Kind::write;
    mine.inner.length_bytes = 512;
    mine.inner.buffer = mine.inner_memory;
    mine.inner.context = &mine;
    mine.inner.completion = [](IoRequest& inner, Status) noexcept {
      static_cast<Probe*>(inner.context)->inner_done = true;
    };
    mine.image.submit(mine.inner);
  };
  image_->submit(outer);
  EXPECT_TRUE(probe.inner_done);
}

TEST_F(ImageTest, TheDestructorWaitsForWhatIsInFlight) {
  make(65536, 1, 4096);
  device_->set(Call::write, Fault::stall, FaultyDevice::kEvery);
  TestRequest request(*image_, Kind::write, 0, 65536, filled(65536, 1));
  std::thread caller([&] { image_->submit(request.request()); });
  FaultyDevice& device = *device_;
  device.wait_until_stalled(2);
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    device.release();
  });
  image_.reset();
  EXPECT_EQ(request.completions(), 1U);
  caller.join();
  releaser.join();
}

}  // namespace
}  // namespace cryptimg::test
