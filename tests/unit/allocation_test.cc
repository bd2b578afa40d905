// SPDX-License-Identifier: GPL-3.0-or-later
//
// The path of a request allocates nothing in steady state. A program of its own, because it
// replaces operator new; left out of sanitizer builds, which replace it themselves.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/encrypted_image.h"
#include "tests/support/image_fixture.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> allocations{0};

void* allocate(std::size_t size_bytes) {
  if (counting) {
    ++allocations;
  }
  void* const memory = std::malloc(size_bytes == 0 ? 1 : size_bytes);
  if (memory == nullptr) {
    std::abort();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size_bytes) {
  return allocate(size_bytes);
}
void* operator new[](std::size_t size_bytes) {
  return allocate(size_bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace cryptimg::test {
namespace {

using Kind = IoRequest::Kind;

TEST_F(ImageTest, RequestsAllocateNothing) {
  constexpr std::uint64_t kSize = 8 << 20;
  make(kSize, 2, 16384, 2);
  std::atomic<bool> start{false};
  std::atomic<int> ready{0};
  std::atomic<int> done{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < 3; ++id) {
    threads.emplace_back([&, id] {
      std::vector<std::byte> memory(1 << 20);
      std::atomic<unsigned> completed{0};
      IoRequest request;
      request.context = &completed;
      request.completion = [](IoRequest& mine, Status) noexcept {
        ++*static_cast<std::atomic<unsigned>*>(mine.context);
      };
      ++ready;
      while (!start) {
        std::this_thread::yield();
      }
      for (unsigned round = 0; round < 300; ++round) {
        request.kind = (round + id) % 2 == 0 ? Kind::read : Kind::write;
        request.durable = round % 50 == 0;
        request.offset_bytes = (round * 12'345) % (kSize / 2);
        request.length_bytes = 1 + (round * 4'321) % 900'000;
        const auto bytes = image_->cover(request.offset_bytes, request.length_bytes);
        request.buffer = MutableBytes(memory).first(bytes.length_bytes);
        image_->submit(request);
        while (completed != round + 1) {
          std::this_thread::yield();
        }
        if (round % 60 == 0) {
          (void)image_->zero(0, 100'000, memory);
        }
      }
      ++done;
      while (!leave) {
        std::this_thread::yield();
      }
    });
  }
  while (ready < 3) {
    std::this_thread::yield();
  }
  counting = true;
  start = true;
  while (done < 3) {
    std::this_thread::yield();
  }
  counting = false;
  leave = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(allocations, 0U);
}

// Streams are found, chunks filled, taken and dropped.
TEST_F(ImageTest, ReadingAheadAllocatesNothing) {
  constexpr std::uint64_t kSize = 8 << 20;
  constexpr std::uint64_t kLength = 64 << 10;
  readahead_bytes_ = 4 << 20;
  make(kSize, 0);
  std::vector<std::byte> memory(kLength);
  IoRequest request;
  unsigned completions = 0;
  request.context = &completions;
  request.completion = [](IoRequest& mine, Status) noexcept {
    ++*static_cast<unsigned*>(mine.context);
  };
  request.length_bytes = kLength;
  request.buffer = memory;
  unsigned submitted = 0;
  const auto submit = [&](Kind kind, std::uint64_t offset_bytes) {
    request.kind = kind;
    request.offset_bytes = offset_bytes;
    image_->submit(request);
    ++submitted;
  };
  counting = true;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    for (std::uint64_t offset = 0; offset < kSize; offset += kLength) {
      submit(Kind::read, offset);
      if (offset % (16 * kLength) == 0) {
        submit(Kind::write, (offset + 4 * kLength) % kSize);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  } while (image_->counters().ahead_bytes < kSize && std::chrono::steady_clock::now() < give_up);
  counting = false;
  EXPECT_GE(image_->counters().ahead_bytes, kSize) << "nothing was read ahead: nothing is proved";
  EXPECT_EQ(completions, submitted);
  EXPECT_EQ(allocations, 0U);
}

}  // namespace
}  // namespace cryptimg::test
