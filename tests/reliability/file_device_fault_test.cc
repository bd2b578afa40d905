// SPDX-License-Identifier: GPL-3.0-or-later
//
// The device over a file, each of whose system calls goes wrong in turn: fails with any errno, is
// interrupted, or does less than it was asked to. The linker puts the functions below in the place
// of the C library's (--wrap, see CMakeLists.txt); a count shows that they were called.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/block_device.h"
#include "tests/model/random.h"

namespace {

// What happens to the calls of one kind that this thread makes.
struct Plan {
  std::uint64_t from = 0;          // the first that fails, counted from 1; 0: none
  std::uint64_t count = 1;         // how many do
  int os_errno = 0;                // 0: they transfer nothing
  std::size_t at_most = SIZE_MAX;  // bytes that each other call transfers
  std::uint64_t calls = 0;
};
thread_local Plan read_plan;
thread_local Plan write_plan;
thread_local Plan sync_plan;
thread_local Plan allocate_plan;
thread_local Plan stat_plan;

// Counts a call. True where it is to fail, with errno set; else it may transfer less than `size`.
bool fails(Plan& plan, std::size_t& size) {
  ++plan.calls;
  const bool is_struck =
      plan.from != 0 && plan.calls >= plan.from && plan.calls - plan.from < plan.count;
  if (is_struck && plan.os_errno != 0) {
    errno = plan.os_errno;
    return true;
  }
  size = is_struck ? 0 : std::min(size, plan.at_most);
  return false;
}
bool fails(Plan& plan) {
  std::size_t none = 0;
  return fails(plan, none);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the linker's names
extern "C" {
ssize_t __real_pread64(int fd, void* target, size_t size, off64_t offset);
ssize_t __wrap_pread64(int fd, void* target, size_t size, off64_t offset) {
  return fails(read_plan, size) ? -1 : __real_pread64(fd, target, size, offset);
}
ssize_t __real_pwrite64(int fd, const void* source, size_t size, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void* source, size_t size, off64_t offset) {
  return fails(write_plan, size) ? -1 : __real_pwrite64(fd, source, size, offset);
}
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd) {
  return fails(sync_plan) ? -1 : __real_fdatasync(fd);
}
int __real_fallocate64(int fd, int mode, off64_t offset, off64_t length);
int __wrap_fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  return fails(allocate_plan) ? -1 : __real_fallocate64(fd, mode, offset, length);
}
int __real_fstat64(int fd, struct stat64* status);
int __wrap_fstat64(int fd, struct stat64* status) {
  return fails(stat_plan) ? -1 : __real_fstat64(fd, status);
}
}
// NOLINTEND

namespace cryptimg::test {
namespace {

constexpr std::uint64_t kDataOffset = 4096;
constexpr std::uint64_t kSize = 65536;
constexpr int kErrnos[] = {EIO, ENOSPC, EDQUOT, ENOMEM, EROFS, EBADF, EPERM, EFBIG, EREMOTEIO};

class FileDeviceFault : public ::testing::Test {
 protected:
  void SetUp() override {
    fd_ = UniqueFd(::memfd_create("container", MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    ASSERT_EQ(::ftruncate(fd_.get(), kDataOffset + kSize), 0);
    device_ = make_file_device(UniqueFd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)), kDataOffset, kSize,
                               BackingIo::buffered);
    content_.resize(kSize);
    model::fill(content_, 1);
    ASSERT_TRUE(device_->write(0, content_));
    calm();
  }
  void TearDown() override { calm(); }
  static void calm() { read_plan = write_plan = sync_plan = allocate_plan = stat_plan = Plan(); }

  void expect_error(const Status& status, int os_errno, Plan& plan) {
    EXPECT_GE(plan.calls, 1U) << "the call was not made";
    ASSERT_FALSE(status) << os_errno;
    EXPECT_EQ(status.error().os_errno, os_errno);
    EXPECT_EQ(status.error().code, errc_from_errno(os_errno));
    calm();
  }
  // Nothing of the fault is left.
  void expect_works() {
    std::vector<std::byte> found(kSize);
    ASSERT_TRUE(device_->read(0, found));
    EXPECT_EQ(found, content_);
    EXPECT_TRUE(device_->flush());
    EXPECT_TRUE(device_->allocate(0, kSize));
    calm();
  }

  UniqueFd fd_;
  std::unique_ptr<BlockDevice> device_;
  std::vector<std::byte> content_;
};

TEST_F(FileDeviceFault, EachErrnoOfEachCallIsTold) {
  std::vector<std::byte> target(kSize);
  for (const int os_errno : kErrnos) {
    read_plan = {1, 1, os_errno};
    expect_error(device_->read(0, target), os_errno, read_plan);
    write_plan = {1, 1, os_errno};
    expect_error(device_->write(0, content_), os_errno, write_plan);
    stat_plan = {1, 1, os_errno};
    expect_error(device_->write(0, content_), os_errno, stat_plan);
    sync_plan = {1, 1, os_errno};
    expect_error(device_->flush(), os_errno, sync_plan);
    allocate_plan = {1, 1, os_errno};
    expect_error(device_->allocate(0, kSize), os_errno, allocate_plan);
    expect_works();
  }
}

// A part went well, the rest fails, or is nothing, which would go on for ever.
TEST_F(FileDeviceFault, AFailureAfterShortTransfersIsTold) {
  std::vector<std::byte> target(kSize);
  for (const std::uint64_t nth : {1U, 2U, 66U}) {
    for (const int os_errno : {EIO, ENOSPC, EDQUOT, 0}) {
      const int expected = os_errno == 0 ? EIO : os_errno;
      read_plan = {nth, UINT64_MAX, os_errno, 1000};
      const Status read = device_->read(0, target);
      EXPECT_EQ(read_plan.calls, nth);
      expect_error(read, expected, read_plan);
      write_plan = {nth, UINT64_MAX, os_errno, 1000};
      const Status written = device_->write(0, content_);
      EXPECT_EQ(write_plan.calls, nth);
      expect_error(written, expected, write_plan);
      expect_works();
    }
  }
}

TEST_F(FileDeviceFault, InterruptedCallsAreMadeAgain) {
  std::vector<std::byte> target(kSize);
  constexpr std::uint64_t kTimes = 5;
  read_plan = write_plan = sync_plan = allocate_plan = {1, kTimes, EINTR};
  EXPECT_TRUE(device_->read(0, target));
  EXPECT_EQ(target, content_);
  EXPECT_TRUE(device_->write(0, content_));
  EXPECT_TRUE(device_->flush());
  EXPECT_TRUE(device_->allocate(0, kSize));
  for (const Plan* const plan : {&read_plan, &write_plan, &sync_plan, &allocate_plan}) {
    EXPECT_EQ(plan->calls, kTimes + 1);
  }
  calm();
  expect_works();
}

TEST_F(FileDeviceFault, ShortTransfersAreFinished) {
  for (const std::size_t at_most : {1U, 511U, 4096U, 65535U}) {
    model::fill(content_, at_most);
    write_plan.at_most = at_most;
    ASSERT_TRUE(device_->write(0, content_));
    EXPECT_EQ(write_plan.calls, (kSize + at_most - 1) / at_most);
    std::vector<std::byte> target(kSize);
    read_plan.at_most = at_most;
    ASSERT_TRUE(device_->read(0, target));
    EXPECT_EQ(read_plan.calls, (kSize + at_most - 1) / at_most);
    EXPECT_EQ(target, content_);
    calm();
    expect_works();
  }
}

}  // namespace
}  // namespace cryptimg::test
