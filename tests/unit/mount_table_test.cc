// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_table.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace cryptimg {
namespace {

constexpr const char* kTable =
    "22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
    "300 28 0:51 / /mnt/x rw,nosuid,nodev,relatime shared:5 master:2 - fuse.cryptimg /c.img "
    "rw,user_id=1000,group_id=1000\n"
    "301 28 0:52 / /mnt/a\\040b\\134c ro,nosuid - fuse.cryptimg /odd\\011\\012,name\\134 "
    "rw,user_id=0\n"
    "302 28 0:53 / /mnt/y rw - fuse.other /c.img rw,user_id=0\n";

TEST(MountTable, OnlyOurTypeWithEscapesUndone) {
  const auto mounts = parse_mountinfo(kTable);
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].mount_id, 300);
  EXPECT_EQ(mounts[0].device_major, 0U);
  EXPECT_EQ(mounts[0].device_minor, 51U);
  EXPECT_EQ(mounts[0].mountpoint, "/mnt/x");
  EXPECT_EQ(mounts[0].container, "/c.img");
  EXPECT_EQ(mounts[0].type, "fuse.cryptimg");
  EXPECT_EQ(mounts[0].owner, 1000U);
  EXPECT_FALSE(mounts[0].read_only);
  EXPECT_EQ(mounts[0].options, "rw,nosuid,nodev,relatime,rw,user_id=1000,group_id=1000");
  EXPECT_EQ(mounts[1].mountpoint, "/mnt/a b\\c");
  EXPECT_EQ(mounts[1].container, "/odd\t\n,name\\");
  EXPECT_TRUE(mounts[1].read_only);
  EXPECT_EQ(parse_all_mounts(kTable).size(), 4U);
}

TEST(MountTable, MalformedLinesArePassedOver) {
  for (const char* line :
       {"", "\n\n", "300", "300 28 0:51 / /mnt/x rw", "300 28 0:51 / /mnt/x rw -",
        "300 28 0:51 / /mnt/x rw - fuse.cryptimg /c", "x 28 0:51 / /m rw - fuse.cryptimg /c rw",
        "300 28 51 / /m rw - fuse.cryptimg /c rw", "300 28 0:x / /m rw - fuse.cryptimg /c rw",
        "300 28 0:1 / - fuse.cryptimg /c rw", "300 28 0:51 / /m rw - fuse.cryptimg /c user_id=x",
        "300 28 0:4294967296 / /m rw - fuse.cryptimg /c rw"}) {
    EXPECT_TRUE(parse_mountinfo(line).empty()) << line;
  }
  // An escape that is cut off, or none, stays as it is.
  const auto mounts = parse_mountinfo("1 2 0:3 / /a\\04 rw - fuse.cryptimg /b\\9 rw");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].mountpoint, "/a\\04");
  EXPECT_EQ(mounts[0].container, "/b\\9");
}

// Targets are found by path before any file system is asked.
class FindMounts : public testing::Test {
 protected:
  FindMounts() {
    std::filesystem::create_directories(directory_ / "mnt");
    std::ofstream(directory_ / "c.img") << "x";
    std::filesystem::create_hard_link(directory_ / "c.img", directory_ / "hard.img");
    std::filesystem::create_symlink(directory_ / "c.img", directory_ / "soft.img");
    std::filesystem::create_directory_symlink(directory_, directory_ / "link");
    MountEntry entry;
    entry.mountpoint = (directory_ / "mnt").string();
    entry.container = (directory_ / "c.img").string();
    mounts_.push_back(entry);
    entry.mountpoint = "/elsewhere";
    entry.container = "/other.img";
    mounts_.push_back(entry);
  }
  ~FindMounts() override { std::filesystem::remove_all(directory_); }

  std::size_t found(const std::filesystem::path& target) {
    const auto entries = find_mounts(mounts_, target.string());
    EXPECT_TRUE(entries.empty() || entries[0].mountpoint == mounts_[0].mountpoint);
    return entries.size();
  }

  std::filesystem::path directory_ =
      std::filesystem::canonical(std::filesystem::temp_directory_path()) /
      ("mount-table-test-" + std::to_string(::getpid()));
  std::vector<MountEntry> mounts_;
};

TEST_F(FindMounts, ByMountPoint) {
  EXPECT_EQ(found(directory_ / "mnt"), 1U);
  EXPECT_EQ(found(directory_ / "mnt/"), 1U);
  EXPECT_EQ(found(directory_ / "mnt/../mnt/./image"), 1U);
  EXPECT_EQ(found(directory_ / "link/mnt"), 1U);
  EXPECT_EQ(found(directory_ / "mnt/other"), 0U);
  EXPECT_EQ(found("/"), 0U);
  EXPECT_EQ(found(""), 0U);
}

TEST_F(FindMounts, ByContainer) {
  EXPECT_EQ(found(directory_ / "c.img"), 1U);
  EXPECT_EQ(found(directory_ / "hard.img"), 1U);
  EXPECT_EQ(found(directory_ / "soft.img"), 1U);
  EXPECT_EQ(found(directory_ / "link/c.img"), 1U);
  EXPECT_EQ(found(directory_ / "absent.img"), 0U);
}

TEST_F(FindMounts, AMountOnAnImageIsMeantByItsOwnName) {
  MountEntry nested = mounts_[0];
  nested.mountpoint += "/image";
  mounts_.push_back(nested);
  for (const char* target : {"mnt/image", "link/mnt/image"}) {
    const auto entries = find_mounts(mounts_, (directory_ / target).string());
    ASSERT_EQ(entries.size(), 1U) << target;
    EXPECT_EQ(entries[0].mountpoint, nested.mountpoint);
  }
  EXPECT_EQ(found(directory_ / "mnt"), 1U);
}

TEST_F(FindMounts, StackedMountsAreAllFound) {
  mounts_.push_back(mounts_[0]);
  EXPECT_EQ(found(directory_ / "mnt"), 2U);
}

TEST(FindHolders, NamesThisMachinesProcesses) {
  // The root file system is held by everybody; this process itself is left out.
  const auto text = read_proc_file("/proc/self/mountinfo");
  ASSERT_TRUE(text);
  const auto mounts = parse_all_mounts(*text);
  ASSERT_FALSE(mounts.empty());
  const std::string self = "process " + std::to_string(::getpid()) + " ";
  for (const std::string& holder : find_holders(mounts[0])) {
    EXPECT_NE(holder.substr(0, self.size()), self);
  }
}

TEST(Unmount, WhatIsNotMountedIsNotFound) {
  const Status status = unmount("/nonexistent-mount-point", false);
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().code == Errc::not_found || status.error().code == Errc::permission ||
              status.error().code == Errc::unavailable);
}

}  // namespace
}  // namespace cryptimg
