// SPDX-License-Identifier: GPL-3.0-or-later
//
// What a header may ask of a machine: control groups as the kernel shows them, and keyslots that
// ask for too much.
#include "core/kdf_limits.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/container_fixture.h"
#include "tests/support/luks2_edit.h"

namespace cryptimg {
namespace {

using testing::edit_luks2_json;
using testing::fails_with;
using testing::kPassphrase;
using testing::secret_of;

constexpr std::uint64_t kNone = UINT64_MAX;

class CgroupTest : public ::testing::Test {
 protected:
  void limit(const std::string& file, const std::string& text) {
    const std::filesystem::path path = dir_ / file;
    std::filesystem::create_directories(path.parent_path());
    testing::write_file(path.string(), text);
  }
  std::uint64_t limit_of(const std::string& memberships, const std::string& mounts) {
    return cgroup_memory_limit_bytes(memberships, mounts, dir_.path());
  }
  testing::TempDir dir_;
};

const char* const kVersion2 =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const char* const kVersion1 =
    "36 25 0:31 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "37 25 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n";

TEST_F(CgroupTest, TheSmallestOfAllAboveCounts) {
  limit("sys/fs/cgroup/a/b/memory.max", "max\n");
  limit("sys/fs/cgroup/a/memory.max", "1048576\n");
  EXPECT_EQ(limit_of("0::/a/b\n", kVersion2), 1048576U);
  limit("sys/fs/cgroup/a/b/memory.max", "4096\n");
  EXPECT_EQ(limit_of("0::/a/b\n", kVersion2), 4096U);
  EXPECT_EQ(limit_of("0::/a\n", kVersion2), 1048576U);
  EXPECT_EQ(limit_of("0::/elsewhere\n", kVersion2), kNone);
  EXPECT_EQ(limit_of("0::/\n", kVersion2), kNone);
}

TEST_F(CgroupTest, InAContainerTheTopIsItsOwn) {
  limit("sys/fs/cgroup/memory.max", "65536\n");
  EXPECT_EQ(limit_of("0::/\n", kVersion2), 65536U);
  EXPECT_EQ(limit_of("0::/../outside\n", kVersion2), 65536U);
}

TEST_F(CgroupTest, Version1) {
  limit("cg/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
  limit("cg/memory/x/memory.limit_in_bytes", "2097152\n");
  limit("cg/cpu/x/y/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(limit_of("5:cpu,cpuacct:/x/y\n4:memory:/x/y\n0::/\n", kVersion1), 2097152U);
  EXPECT_EQ(limit_of("5:cpu,cpuacct:/x/y\n", kVersion1), kNone);
  // A part of the hierarchy is mounted, as in Docker.
  EXPECT_EQ(limit_of("4:memory:/x/y", "37 25 0:32 /x/y /cg/memory/x rw - cgroup cgroup rw,memory"),
            2097152U);
}

TEST_F(CgroupTest, NonsenseIsNoLimit) {
  limit("sys/fs/cgroup/memory.max", "\n");
  for (const char* const text : {"", "\n", "0", "0::", ":::", "0:memory", "0::/a\n0::/b"}) {
    EXPECT_EQ(limit_of(text, kVersion2), kNone) << text;
    EXPECT_EQ(limit_of("0::/", text), kNone) << text;
  }
}

TEST(KdfWork, BoundsAreExact) {
  KeyslotInfo slot;
  slot.iterations = static_cast<std::uint32_t>(kMaxKdfWork);
  slot.digest_iterations = slot.iterations;
  EXPECT_EQ(kdf_work_refusal(slot), "");
  ++slot.digest_iterations;
  EXPECT_NE(kdf_work_refusal(slot).find("1073741825"), std::string::npos);
  slot.digest_iterations = 0;
  ++slot.iterations;
  EXPECT_NE(kdf_work_refusal(slot).find("1073741825"), std::string::npos);
  slot.iterations = 1024;
  slot.memory_kib = 1 << 20;
  slot.parallel = 64;
  EXPECT_EQ(kdf_work_refusal(slot), "");
  slot.memory_kib += 1;
  EXPECT_NE(kdf_work_refusal(slot).find("1048577 KiB"), std::string::npos);
  slot.memory_kib = UINT32_MAX;
  slot.iterations = UINT32_MAX;
  EXPECT_NE(kdf_work_refusal(slot), "");
  slot.memory_kib = 64;
  slot.iterations = 4;
  slot.parallel = 65;
  EXPECT_NE(kdf_work_refusal(slot).find("65 threads"), std::string::npos);
}

TEST(KdfWork, ThisMachineHasALimit) {
  EXPECT_GT(memory_limit_kib(), 1024U);
  EXPECT_LT(memory_limit_kib(), kNone / 1024);
}

class KdfLimitsTest : public testing::ContainerFixture {};

TEST_F(KdfLimitsTest, OnlyWhenLifted) {
  ASSERT_NO_FATAL_FAILURE(format({"--pbkdf", "argon2id", "--pbkdf-force-iterations", "4",
                                  "--pbkdf-memory", "32", "--pbkdf-parallel", "1"}));
  // Still the right key, for who waits: 65 threads over 1024 KiB, which take no time.
  ASSERT_TRUE(edit_luks2_json(path(), "\"cpus\":1", "\"cpus\":65"));
  ASSERT_TRUE(edit_luks2_json(path(), "\"memory\":32", "\"memory\":1024"));
  Result<Container> container = open();
  ASSERT_TRUE(container);
  EXPECT_TRUE(
      fails_with(container->unlock(secret_of(kPassphrase), {}), Errc::unsupported, "65 threads"));
  // Another key comes out of other costs: it was derived.
  EXPECT_TRUE(fails_with(container->unlock(secret_of(kPassphrase), {}, KdfBounds::lift),
                         Errc::wrong_key, ""));
}

// libcryptsetup would attach a loop device and have device-mapper decipher it.
TEST_F(KdfLimitsTest, KeyslotsOfOtherCiphersAreNotTried) {
  ASSERT_NO_FATAL_FAILURE(format());
  ASSERT_TRUE(edit_luks2_json(path(), R"("encryption":"aes-xts-plain64","key_size":64)",
                              R"("encryption":"serpent-xts-plain64","key_size":64)"));
  Result<Container> container = open();
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_TRUE(fails_with(container->unlock(secret_of(kPassphrase), {}, KdfBounds::lift),
                         Errc::unsupported, "serpent-xts-plain64"));
}

TEST_F(KdfLimitsTest, Luks1) {
  ASSERT_NO_FATAL_FAILURE(format({}, "luks1"));
  std::string file = testing::read_file(path());
  const std::string pristine = file;
  for (const std::size_t field : {std::size_t{164}, std::size_t{208 + 4}}) {
    file = pristine;
    file.replace(field, 4, "\xff\xff\xff\xff");
    testing::write_file(path(), file);
    Result<Container> container = open();
    ASSERT_TRUE(container) << container.error().message;
    EXPECT_TRUE(fails_with(container->unlock(secret_of(kPassphrase), {}), Errc::unsupported,
                           "4294967295 iterations"));
  }
}

}  // namespace
}  // namespace cryptimg
