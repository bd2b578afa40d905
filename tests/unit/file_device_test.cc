// SPDX-License-Identifier: GPL-3.0-or-later
//
// The device over real files in memory (memfd), over /dev/full for a failing system call, and past
// the page cache of the disk.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/block_device.h"
#include "tests/support/temp_dir.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kDataOffset = 4096;
constexpr std::uint64_t kSize = 65536;

class FileDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = UniqueFd(::memfd_create("container", MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    resize(kDataOffset + kSize);
    device_ =
        make_file_device(UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)), kDataOffset, kSize);
  }
  void resize(std::uint64_t bytes) {
    ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(bytes)), 0);
  }
  std::uint64_t file_size() {
    struct stat status {};
    EXPECT_EQ(::fstat(fd_.get(), &status), 0);
    return static_cast<std::uint64_t>(status.st_size);
  }
  Errc read_error(std::uint64_t offset, std::size_t length) {
    std::vector<std::byte> buffer(length);
    return device_->read(offset, buffer).error().code;
  }
  Errc write_error(std::uint64_t offset, std::size_t length) {
    const std::vector<std::byte> buffer(length);
    return device_->write(offset, buffer).error().code;
  }

  UniqueFd fd_;
  std::unique_ptr<BlockDevice> device_;
};

TEST_F(FileDeviceTest, OffsetsCountFromTheDataSegment) {
  const std::vector<std::byte> written(1000, std::byte{7});
  ASSERT_TRUE(device_->write(300, written));
  std::vector<std::byte> raw(1000);
  ASSERT_EQ(::pread(fd_.get(), raw.data(), raw.size(), kDataOffset + 300), 1000);
  EXPECT_EQ(raw, written);
  std::vector<std::byte> read(1000);
  ASSERT_TRUE(device_->read(300, read));
  EXPECT_EQ(read, written);
  EXPECT_TRUE(device_->flush());
}

TEST_F(FileDeviceTest, NothingOutsideTheSegmentIsServed) {
  resize(kDataOffset + 2 * kSize);
  EXPECT_EQ(read_error(kSize, 1), Errc::io);
  EXPECT_EQ(read_error(kSize - 10, 11), Errc::io);
  EXPECT_EQ(write_error(kSize - 10, 11), Errc::io);
  EXPECT_EQ(write_error(UINT64_MAX, 1), Errc::io);
  EXPECT_EQ(device_->allocate(kSize, 1).error().code, Errc::io);
}

TEST_F(FileDeviceTest, ATruncatedFileIsIoAndIsNeverExtended) {
  resize(kDataOffset + kSize / 2);
  EXPECT_EQ(read_error(kSize / 2, 512), Errc::io);
  EXPECT_EQ(read_error(kSize / 2 - 512, 1024), Errc::io);
  EXPECT_EQ(write_error(kSize / 2, 512), Errc::io);
  EXPECT_EQ(write_error(kSize / 2 - 512, 1024), Errc::io);
  EXPECT_FALSE(device_->allocate(0, kSize));
  EXPECT_EQ(file_size(), kDataOffset + kSize / 2);
  std::vector<std::byte> buffer(512);
  EXPECT_TRUE(device_->read(kSize / 2 - 512, buffer));
  EXPECT_TRUE(device_->write(kSize / 2 - 512, buffer));
}

TEST_F(FileDeviceTest, AllocateReservesWithoutChangingContentOrSize) {
  struct stat before {};
  ASSERT_EQ(::fstat(fd_.get(), &before), 0);
  ASSERT_TRUE(device_->allocate(0, kSize));
  struct stat after {};
  ASSERT_EQ(::fstat(fd_.get(), &after), 0);
  EXPECT_GE(after.st_blocks * 512, static_cast<blkcnt_t>(kSize));
  EXPECT_GT(after.st_blocks, before.st_blocks);
  EXPECT_EQ(after.st_size, before.st_size);
  std::vector<std::byte> buffer(kSize, std::byte{1});
  ASSERT_TRUE(device_->read(0, buffer));
  EXPECT_EQ(buffer, std::vector<std::byte>(kSize));
}

TEST_F(FileDeviceTest, ModifiedTimeFollowsWrites) {
  const timespec past[2] = {{1000, 0}, {1000, 5}};
  ASSERT_EQ(::futimens(fd_.get(), past), 0);
  EXPECT_EQ(device_->modified_time().tv_sec, 1000);
  EXPECT_EQ(device_->modified_time().tv_nsec, 5);
  ASSERT_TRUE(device_->write(0, std::vector<std::byte>(512)));
  EXPECT_GT(device_->modified_time().tv_sec, 1000);
}

TEST_F(FileDeviceTest, TheErrnoOfAFailedCallIsKept) {
  device_ = make_file_device(UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)), 0, kSize);
  ASSERT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);  // sealing was not allowed
  const UniqueFd read_only(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  device_ = make_file_device(UniqueFd(::fcntl(read_only.get(), F_DUPFD_CLOEXEC, 0)), 0, 512);
  const Status status = device_->write(0, std::vector<std::byte>(512));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().os_errno, EBADF);
}

// Past the page cache, to and from addresses that no DMA takes.
class DirectDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ =
        UniqueFd(::open((dir_.path() + "/container").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd_.valid());
    ASSERT_EQ(::ftruncate(fd_.get(), kDataOffset + kDirectSize), 0);
    ASSERT_EQ(::fsync(fd_.get()), 0);
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    if (::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) != 0) {
      GTEST_SKIP() << "this file system has no direct I/O";
    }
    ASSERT_EQ(::fcntl(fd_.get(), F_SETFL, flags), 0);
  }
  // With a description of its own, so that fd_ stays as it is.
  Result<std::unique_ptr<BlockDevice>> open(std::uint64_t size_bytes, std::uint32_t sector_bytes) {
    UniqueFd own(::open((dir_.path() + "/container").c_str(), O_RDWR | O_CLOEXEC));
    seen_ = own.get();
    return make_direct_device(std::move(own), kDataOffset, size_bytes, sector_bytes);
  }

  static constexpr std::uint64_t kDirectSize = 4U << 20;
  testing::TempDir dir_;
  UniqueFd fd_;
  int seen_ = -1;
};

TEST_F(DirectDeviceTest, WritesAndReadsAtAnyAddress) {
  auto device = open(kDirectSize, 4096);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_NE(::fcntl(seen_, F_GETFL) & O_DIRECT, 0);
  for (const std::size_t skew : {std::size_t{0}, std::size_t{1}, std::size_t{512}}) {
    for (const std::size_t length : {std::size_t{4096}, std::size_t{1} << 20}) {
      std::vector<std::byte> memory(length + 8192);
      std::byte* page =
          memory.data() + 4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096;
      const MutableBytes bytes(page + skew, length);
      std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(skew + length / 4096));
      ASSERT_TRUE((*device)->write(8192, bytes));
      std::vector<std::byte> raw(length);
      ASSERT_EQ(::pread(fd_.get(), raw.data(), length, kDataOffset + 8192),
                static_cast<ssize_t>(length));
      EXPECT_TRUE(std::equal(raw.begin(), raw.end(), bytes.begin()));
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
      ASSERT_TRUE((*device)->read(8192, bytes));
      EXPECT_TRUE(std::equal(raw.begin(), raw.end(), bytes.begin()));
    }
  }
  EXPECT_TRUE((*device)->view(0, 1U << 20).empty());
  EXPECT_TRUE((*device)->flush());
}

TEST_F(DirectDeviceTest, NothingOutsideIsServedAndNothingIsMadeLonger) {
  auto device = open(kDirectSize, 4096);
  ASSERT_TRUE(device) << device.error().message;
  std::vector<std::byte> sector(4096);
  EXPECT_EQ((*device)->read(kDirectSize, sector).error().code, Errc::io);
  ASSERT_EQ(::ftruncate(fd_.get(), kDataOffset + 8192), 0);
  EXPECT_EQ((*device)->read(8192, sector).error().code, Errc::io);
  EXPECT_EQ((*device)->write(8192, sector).error().code, Errc::io);
  EXPECT_TRUE((*device)->write(4096, sector));
  EXPECT_TRUE((*device)->read(4096, sector));
}

TEST_F(DirectDeviceTest, RefusesWhatCannotBe) {
  const auto short_file = open(kDirectSize + 4096, 4096);
  ASSERT_FALSE(short_file);
  EXPECT_EQ(short_file.error().code, Errc::io);
  const auto no_file = make_direct_device(UniqueFd(::eventfd(0, EFD_CLOEXEC)), 0, 4096, 4096);
  ASSERT_FALSE(no_file);
  EXPECT_EQ(no_file.error().code, Errc::unsupported);
  EXPECT_NE(no_file.error().message.find("--backing-io auto"), std::string::npos);
}

}  // namespace
}  // namespace cryptimg
