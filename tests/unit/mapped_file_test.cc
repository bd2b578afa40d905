// SPDX-License-Identifier: GPL-3.0-or-later
//
// Reading a file as memory: whole, cold, and cut short under the reader. pread(2) is the oracle.
// A reader that a lost page kills takes the whole test program with it.
#include "core/mapped_file.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/block_device.h"
#include "core/encrypted_image.h"
#include "core/unique_fd.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_engine.h"
#include "tests/support/image_fixture.h"

namespace cryptimg::test {
namespace {

constexpr std::size_t kSize = 256U << 10;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override { open_at("/var/tmp"); }  // on a disk, where /tmp may be memory

  // A file with no name, of random bytes, clean.
  void open_at(const std::string& folder) {
    std::string name = folder + "/cryptimg-test-XXXXXX";
    fd_ = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    ::unlink(name.c_str());
    content_.resize(kSize);
    std::mt19937_64 random(1);
    for (std::byte& byte : content_) {
      byte = static_cast<std::byte>(random());
    }
    ASSERT_EQ(::pwrite(fd_.get(), content_.data(), kSize, 0), static_cast<ssize_t>(kSize));
    ASSERT_EQ(::fdatasync(fd_.get()), 0);
  }
  [[nodiscard]] std::vector<std::byte> by_pread(std::size_t offset, std::size_t length) const {
    std::vector<std::byte> bytes(length);
    EXPECT_EQ(::pread(fd_.get(), bytes.data(), length, static_cast<off_t>(offset)),
              static_cast<ssize_t>(length));
    return bytes;
  }
  void truncate(std::size_t size) {
    ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
  }
  [[nodiscard]] std::unique_ptr<BlockDevice> device(std::uint64_t offset,
                                                    std::uint64_t size) const {
    return make_file_device(UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)), offset, size);
  }
  static std::vector<std::byte> copy(Bytes view) { return {view.begin(), view.end()}; }

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  UniqueFd fd_;
  std::vector<std::byte> content_;
};

TEST_F(MappedFileTest, AViewIsWhatPreadReads) {
  for (const std::size_t segment : {std::size_t{0}, std::size_t{512}, page_, page_ + 1536}) {
    const auto mapping = MappedFile::create(fd_.get(), segment, kSize - segment);
    ASSERT_NE(mapping, nullptr);
    std::mt19937_64 random(segment);
    for (int round = 0; round < 100; ++round) {
      const std::size_t offset = random() % (kSize - segment);
      const std::size_t length = 1 + random() % (kSize - segment - offset);
      const auto expected = by_pread(segment + offset, length);
      const Bytes view = mapping->view(offset, length);
      ASSERT_EQ(view.size(), length) << "what pread has just read is in memory";
      ASSERT_EQ(copy(view), expected);
    }
    EXPECT_TRUE(mapping->still_valid());
  }
}

TEST_F(MappedFileTest, WhatIsWrittenLaterIsSeen) {
  const auto mapping = MappedFile::create(fd_.get(), 0, kSize);
  ASSERT_NE(mapping, nullptr);
  const std::vector<std::byte> written(1000, std::byte{0x5A});
  ASSERT_EQ(::pwrite(fd_.get(), written.data(), written.size(), 3333), 1000);
  EXPECT_EQ(copy(mapping->view(3333, 1000)), written);
}

TEST_F(MappedFileTest, AColdPageIsNotShown) {
  const auto mapping = MappedFile::create(fd_.get(), 0, kSize);
  ASSERT_NE(mapping, nullptr);
  ASSERT_FALSE(mapping->view(0, kSize).empty());
  ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  EXPECT_TRUE(mapping->view(5 * page_, 100).empty());
  EXPECT_TRUE(mapping->view(0, kSize).empty());
  // Only pages that are all there: without neighbours, so that the next one stays cold.
  ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM), 0);
  (void)by_pread(5 * page_, page_);
  EXPECT_EQ(copy(mapping->view(5 * page_ + 7, 100)), by_pread(5 * page_ + 7, 100));
  EXPECT_TRUE(mapping->view(5 * page_, page_ + 1).empty());
  EXPECT_TRUE(mapping->still_valid());
}

TEST_F(MappedFileTest, APageThatNobodyHasReadIsNotShown) {
  truncate(0);
  truncate(kSize);  // a hole
  const auto mapping = MappedFile::create(fd_.get(), 0, kSize);
  ASSERT_NE(mapping, nullptr);
  EXPECT_TRUE(mapping->view(0, 512).empty());
}

TEST_F(MappedFileTest, AFileCutShortUnderAReaderBreaksTheMapping) {
  const auto mapping = MappedFile::create(fd_.get(), 0, kSize);
  ASSERT_NE(mapping, nullptr);
  const Bytes view = mapping->view(0, kSize);
  ASSERT_EQ(view.size(), kSize);
  truncate(8 * page_);
  EXPECT_TRUE(mapping->still_valid()) << "nobody has read a lost page yet";
  const std::vector<std::byte> seen = copy(view);  // dies here, if it dies
  EXPECT_FALSE(mapping->still_valid());
  EXPECT_EQ(seen[7 * page_], content_[7 * page_]);
  EXPECT_EQ(seen[8 * page_], std::byte{0});
  EXPECT_EQ(seen.back(), std::byte{0});
  EXPECT_TRUE(mapping->view(0, 512).empty()) << "a broken mapping is not used again";
}

TEST_F(MappedFileTest, AFileCutShortInSeveralThreadsAndMappings) {
  const auto whole = MappedFile::create(fd_.get(), 0, kSize);
  const auto other = MappedFile::create(fd_.get(), 4096, page_);
  ASSERT_TRUE(whole != nullptr && other != nullptr);
  const Bytes view = whole->view(0, kSize);
  ASSERT_EQ(view.size(), kSize);
  truncate(4096 + page_);
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&] {
      block_signals();
      EXPECT_EQ(copy(view).back(), std::byte{0});
      EXPECT_FALSE(whole->still_valid());
    });
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_TRUE(other->still_valid());
  EXPECT_EQ(copy(other->view(0, page_)), by_pread(4096, page_));
}

TEST_F(MappedFileTest, SignalsOfAThreadsOwnMakingStayUnblocked) {
  std::thread([] {
    block_signals();
    sigset_t blocked;
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
    EXPECT_EQ(::sigismember(&blocked, SIGBUS), 0);
    EXPECT_EQ(::sigismember(&blocked, SIGSEGV), 0);
    EXPECT_EQ(::sigismember(&blocked, SIGTERM), 1);
    EXPECT_EQ(::sigismember(&blocked, SIGUSR1), 1);
  }).join();
}

TEST_F(MappedFileTest, ADeviceShowsItsSegment) {
  const auto file = device(page_ + 512, kSize - page_ - 512);
  const Bytes view = file->view(1000, 5000);
  EXPECT_EQ(copy(view), by_pread(page_ + 512 + 1000, 5000));
  EXPECT_TRUE(file->view_held(1000, 5000));
  EXPECT_TRUE(file->view(kSize - page_ - 512, 1).empty()) << "outside the segment";
}

TEST_F(MappedFileTest, AFileThatEndsInsideAPageIsNotTakenForZeros) {
  const auto file = device(0, kSize);
  const Bytes view = file->view(8 * page_, page_);
  ASSERT_EQ(view.size(), page_);
  truncate(8 * page_ + 100);
  const std::vector<std::byte> seen = copy(view);
  EXPECT_EQ(seen[100], std::byte{0}) << "no fault tells of it";
  EXPECT_FALSE(file->view_held(8 * page_, page_));
  EXPECT_TRUE(file->view_held(8 * page_, 100));
  std::vector<std::byte> target(page_);
  EXPECT_EQ(file->read(8 * page_, target).error().code, Errc::io);
}

TEST_F(MappedFileTest, ADeviceFallsBackToReading) {
  const auto file = device(0, kSize);
  const Bytes view = file->view(0, kSize);
  ASSERT_EQ(view.size(), kSize);
  truncate(8 * page_);
  (void)copy(view);
  EXPECT_FALSE(file->view_held(0, kSize));
  EXPECT_FALSE(file->view_held(0, 512));
  EXPECT_TRUE(file->view(0, 512).empty());
  std::vector<std::byte> target(page_);
  ASSERT_TRUE(file->read(7 * page_, target));
  EXPECT_EQ(target, by_pread(7 * page_, page_));
  EXPECT_EQ(file->read(8 * page_, target).error().code, Errc::io);
}

// The file loses its end after the image has taken a view, before it deciphers.
TEST_F(MappedFileTest, AnImageCutShortWhileItIsDecipheredIsIo) {
  FakeControl control;
  bool cut = false;
  control.on_transform = [&] {
    if (cut) {
      truncate(4 * page_);
      cut = false;
    }
  };
  ImageOptions options;
  options.size_bytes = kSize;
  options.always_view = true;
  CipherSpec spec;
  spec.sector_size_bytes = 512;
  auto image =
      EncryptedImage::create(device(0, kSize), FakeEngine(control), spec, Secret(), options, 1);
  ASSERT_TRUE(image);
  std::vector<std::byte> expected = content_;
  for (std::size_t done = 0; done < kSize; done += 512) {
    const auto sector = MutableBytes(expected).subspan(done, 512);
    fake_cipher_sector(done / 512, sector, sector);
  }
  TestRequest before(**image, IoRequest::Kind::read, 0, kSize);
  ASSERT_TRUE(before.run(**image));
  EXPECT_EQ(copy(before.bytes()), expected);
  EXPECT_EQ((*image)->counters().mapped_bytes, kSize) << "not by the mapping";

  cut = true;
  TestRequest during(**image, IoRequest::Kind::read, 0, 64 * 1024);
  const Status status = during.run(**image);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::io);
  EXPECT_EQ(copy(during.buffer()), std::vector<std::byte>(64 * 1024)) << "nothing of it is served";

  TestRequest after(**image, IoRequest::Kind::read, 0, 4 * page_);
  ASSERT_TRUE(after.run(**image));
  EXPECT_EQ(copy(after.bytes()),
            std::vector<std::byte>(expected.begin(),
                                   expected.begin() + static_cast<std::ptrdiff_t>(4 * page_)));
  EXPECT_EQ((*image)->counters().mapped_bytes, kSize) << "a broken mapping was used again";
  EXPECT_EQ(control.violations, 0U);
}

// What was deciphered ahead while the file was whole is not served any more, nor a part of it.
// The device looks at a file's size once a tick.
void let_a_tick_pass() {
  const auto tick = [] {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return std::pair(now.tv_sec, now.tv_nsec);
  };
  const auto before = tick();
  EXPECT_TRUE(eventually([&] { return tick() != before; }));
}

TEST_F(MappedFileTest, AnImageCutShortServesNothingThatWasReadAhead) {
  constexpr std::uint64_t kChunk = ReadAhead::kChunkBytes;
  constexpr std::uint64_t kLength = 8 * kChunk;
  constexpr std::chrono::milliseconds kSoon{200};
  truncate(kLength);
  FakeControl control;
  ImageOptions options;
  options.size_bytes = kLength;
  options.readahead_bytes = kLength;
  options.readahead_priority = ReadAhead::Priority::normal;
  CipherSpec spec;
  spec.sector_size_bytes = 512;
  auto image =
      EncryptedImage::create(device(0, kLength), FakeEngine(control), spec, Secret(), options, 1);
  ASSERT_TRUE(image);
  const auto read = [&](std::uint64_t offset, std::uint64_t length) {
    TestRequest request(**image, IoRequest::Kind::read, offset, length);
    return request.run(**image);
  };
  const auto is_from_ahead = [&](std::uint64_t offset) {
    const std::uint64_t before = (*image)->counters().ahead_bytes;
    EXPECT_TRUE(read(offset, 512));
    return (*image)->counters().ahead_bytes == before + 512;
  };
  // A stream through the first two chunks, and the third is ready; again where it was not so for
  // the whole of a round.
  EXPECT_TRUE(eventually([&] {
    truncate(kLength);
    EXPECT_TRUE(read(0, kChunk) && read(kChunk, kChunk));
    const bool was_ready = eventually([&] { return is_from_ahead(2 * kChunk); }, kSoon);
    truncate(2 * kChunk + 700);
    let_a_tick_pass();
    EXPECT_FALSE(read(2 * kChunk + 512, 100)) << "of a sector that is cut";
    EXPECT_FALSE(read(2 * kChunk, 1024)) << "across the edge";
    EXPECT_FALSE(read(2 * kChunk + 1024, 512));
    return was_ready && is_from_ahead(2 * kChunk);
  }));
}

}  // namespace
}  // namespace cryptimg::test
