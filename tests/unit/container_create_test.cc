// SPDX-License-Identifier: GPL-3.0-or-later
//
// Containers that we make, judged by cryptsetup; and what `create` leaves alone.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/container.h"
#include "tests/support/container_fixture.h"
#include "tests/support/loop_device.h"

namespace cryptimg {
namespace {

using testing::CommandResult;
using testing::fails_with;
using testing::kPassphrase;
using testing::read_file;
using testing::run_command;
using testing::secret_of;
using testing::write_file;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class ContainerCreateTest : public testing::ContainerFixture {
 protected:
  CreateOptions options(const std::string& type = "luks2") {
    CreateOptions result;
    result.container = path();
    result.type = type;
    result.size_bytes = kMiB;
    result.pbkdf = "pbkdf2";
    result.pbkdf_force_iterations = 1000;
    return result;
  }

  Status create(const CreateOptions& wanted) {
    warnings_.clear();
    return create_container(wanted, secret_of(kPassphrase), warnings_);
  }

  // cryptsetup opens it, finds the same key, and says all these things about it.
  void expect_accepted(const std::vector<std::string>& says,
                       const std::vector<std::string>& header_arguments = {}) {
    const std::string header = header_arguments.empty() ? path() : header_arguments.back();
    EXPECT_TRUE(run_command({"cryptsetup", "isLuks", header}).ok());
    std::vector<std::string> opens = {"cryptsetup", "open", "--test-passphrase", "--key-file", "-"};
    opens.insert(opens.end(), header_arguments.begin(), header_arguments.end());
    opens.push_back(path());
    const CommandResult opened = run_command(opens, kPassphrase);
    EXPECT_TRUE(opened.ok()) << opened.output;
    const CommandResult dump = run_command({"cryptsetup", "luksDump", header});
    for (const std::string& part : says) {
      EXPECT_NE(dump.output.find(part), std::string::npos) << part << " in " << dump.output;
    }
    Result<Container> container =
        open(false, "c.img",
             header_arguments.empty() ? std::nullopt : std::optional(header_arguments.back()));
    EXPECT_EQ(our_key(container), cryptsetup_key(path(), header_arguments));
  }

  std::vector<std::string> warnings_;
};

mode_t mode_of(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST_F(ContainerCreateTest, Luks2) {
  CreateOptions wanted = options();
  wanted.label = "a label";
  wanted.uuid = "01234567-89ab-cdef-0123-456789abcdef";
  const mode_t umask = ::umask(0777);
  const Status created = create(wanted);
  ::umask(umask);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_EQ(mode_of(path()), 0600U);
  EXPECT_EQ(std::filesystem::file_size(path()), 17 * kMiB);
  EXPECT_EQ(dir_.names(), std::vector<std::string>{"c.img"});
  EXPECT_TRUE(warnings_.empty());
  expect_accepted(
      {"aes-xts-plain64", "4096 [bytes]", "512 bits", "a label", *wanted.uuid, "offset: 16777216"});
  EXPECT_EQ(open()->info().image_size_bytes, kMiB);
}

TEST_F(ContainerCreateTest, Luks1) {
  CreateOptions wanted = options("luks1");
  wanted.uuid = "01234567-89ab-cdef-0123-456789abcdef";
  ASSERT_TRUE(create(wanted));
  expect_accepted({"aes", "xts-plain64", "Payload offset:\t4096", *wanted.uuid});
  EXPECT_EQ(open()->info().image_size_bytes, kMiB);
}

TEST_F(ContainerCreateTest, EveryCipher) {
  struct {
    const char* cipher;
    std::uint32_t key_bits;
    std::uint32_t sector_bytes;
  } const cases[] = {{"aes-xts-plain64", 256, 512},
                     {"aes-xts-plain", 512, 1024},
                     {"aes-cbc-essiv:sha256", 256, 2048},
                     {"aes-cbc-plain64", 192, 4096},
                     {"aes-cbc-plain", 128, 512}};
  for (const auto& each : cases) {
    CreateOptions wanted = options();
    wanted.cipher = each.cipher;
    wanted.key_size_bits = each.key_bits;
    wanted.sector_size_bytes = each.sector_bytes;
    wanted.force = true;
    const Status created = create(wanted);
    ASSERT_TRUE(created) << created.error().message;
    expect_accepted({each.cipher, std::to_string(each.key_bits) + " bits",
                     std::to_string(each.sector_bytes) + " [bytes]"});
  }
}

TEST_F(ContainerCreateTest, Argon2) {
  CreateOptions wanted = options();
  wanted.pbkdf = "argon2id";
  wanted.pbkdf_force_iterations = 5;
  wanted.pbkdf_memory_kib = 64;
  wanted.pbkdf_parallel = 1;
  ASSERT_TRUE(create(wanted));
  expect_accepted({"argon2id", "Time cost:  5", "Memory:     64", "Threads:    1"});
}

TEST_F(ContainerCreateTest, BenchmarkedKdf) {
  CreateOptions wanted = options();
  wanted.pbkdf = {};
  wanted.pbkdf_force_iterations = {};
  wanted.pbkdf_memory_kib = 1024;
  wanted.iter_time_ms = 10;
  const Status created = create(wanted);
  ASSERT_TRUE(created) << created.error().message;
  expect_accepted({"argon2id"});
}

TEST_F(ContainerCreateTest, DetachedHeader) {
  CreateOptions wanted = options();
  for (const char* type : {"luks2", "luks1"}) {
    wanted.type = type;
    wanted.header = path("header");
    wanted.force = true;
    const Status created = create(wanted);
    ASSERT_TRUE(created) << created.error().message;
    EXPECT_EQ(std::filesystem::file_size(path()), kMiB);
    EXPECT_EQ(mode_of(*wanted.header), 0600U);
    expect_accepted({"aes"}, {"--header", *wanted.header});
    EXPECT_EQ(open(true, "c.img", wanted.header)->info().image_size_bytes, kMiB);
  }
}

TEST_F(ContainerCreateTest, DetachedHeaderIsNotLeftWhereTheDataFails) {
  CreateOptions wanted = options();
  wanted.header = path("header");
  write_file(path(), "precious");
  EXPECT_TRUE(fails_with(create(wanted), Errc::exists, "--force"));
  EXPECT_EQ(dir_.names(), std::vector<std::string>{"c.img"});
  std::filesystem::rename(path(), *wanted.header);
  EXPECT_TRUE(fails_with(create(wanted), Errc::exists, "header exists"));
  EXPECT_EQ(dir_.names(), std::vector<std::string>{"header"});
  EXPECT_EQ(read_file(*wanted.header), "precious");
  wanted.header = wanted.container;
  wanted.force = true;
  EXPECT_FALSE(create(wanted));
}

TEST_F(ContainerCreateTest, SizesAndSparseness) {
  CreateOptions wanted = options();
  wanted.size_bytes = 64 * kMiB - 5;
  ASSERT_TRUE(create(wanted));
  struct stat info = {};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), 80 * kMiB);
  EXPECT_LE(static_cast<std::uint64_t>(info.st_blocks) * 512, 17 * kMiB);

  wanted.force = true;
  wanted.preallocate = true;
  const Status created = create(wanted);
  if (!created && created.error().code == Errc::unsupported) {
    GTEST_SKIP() << created.error().message;
  }
  ASSERT_TRUE(created) << created.error().message;
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, 80 * kMiB);
}

TEST_F(ContainerCreateTest, MoreThanTheFileSystemHas) {
  CreateOptions wanted = options();
  wanted.size_bytes = std::uint64_t{8} << 40;  // ext4 holds 16 TiB files
  const Status created = create(wanted);
  if (created) {
    EXPECT_EQ(warnings_.size(), 1U);
  } else {
    EXPECT_EQ(created.error().code, Errc::no_space);
  }
  std::filesystem::remove(path());
  wanted.preallocate = true;
  EXPECT_TRUE(fails_with(create(wanted), Errc::no_space, "free"));
  wanted.preallocate = false;
  wanted.size_bytes = std::uint64_t{1} << 62;
  const Status huge = create(wanted);
  EXPECT_TRUE(huge || huge.error().code == Errc::no_space);
  std::filesystem::remove(path());
  EXPECT_TRUE(dir_.names().empty());
}

TEST_F(ContainerCreateTest, NothingIsOverwrittenWithoutForce) {
  write_file(path(), "precious");
  EXPECT_TRUE(fails_with(create(options()), Errc::exists, "--force"));
  EXPECT_EQ(read_file(path()), "precious");
  ASSERT_EQ(::symlink(path("nowhere").c_str(), path("dangling").c_str()), 0);
  CreateOptions wanted = options();
  wanted.container = path("dangling");
  EXPECT_TRUE(fails_with(create(wanted), Errc::exists, "exists"));
  EXPECT_EQ(dir_.names().size(), 2U);
}

TEST_F(ContainerCreateTest, ForceReplacesWhatASymlinkLeadsTo) {
  write_file(path(), "old");
  ASSERT_EQ(::symlink("c.img", path("link").c_str()), 0);
  CreateOptions wanted = options();
  wanted.container = path("link");
  wanted.force = true;
  const Status created = create(wanted);
  ASSERT_TRUE(created) << created.error().message;
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(dir_.names().size(), 2U);
  expect_accepted({});
}

TEST_F(ContainerCreateTest, ForceSparesWhatIsInUse) {
  CreateOptions wanted = options();
  ASSERT_TRUE(create(wanted));
  wanted.force = true;
  for (const bool read_only : {true, false}) {
    const Result<Container> mounted = open(read_only);
    ASSERT_TRUE(mounted);
    EXPECT_TRUE(fails_with(create(wanted), Errc::busy, "mounted"));
  }
  EXPECT_TRUE(create(wanted));
}

TEST_F(ContainerCreateTest, ImpossiblePlaces) {
  CreateOptions wanted = options();
  wanted.container = path("no/such/dir/c.img");
  EXPECT_TRUE(fails_with(create(wanted), Errc::not_found, "directory"));
  wanted.container = dir_.path();
  EXPECT_TRUE(fails_with(create(wanted), Errc::unsupported, "neither"));
  wanted.container = path("x/");
  EXPECT_FALSE(create(wanted));
  wanted.container = path(std::string(300, 'x'));
  EXPECT_FALSE(create(wanted));
  EXPECT_TRUE(dir_.names().empty());
}

TEST_F(ContainerCreateTest, LongestName) {
  CreateOptions wanted = options();
  wanted.container = path(std::string(255, 'x'));
  wanted.force = true;
  const Status created = create(wanted);
  EXPECT_TRUE(created) << created.error().message;
}

class SmallFileSystem {
 public:
  explicit SmallFileSystem(std::string mount_point) : mount_point_(std::move(mount_point)) {
    std::filesystem::create_directory(mount_point_);
    mounted_ = run_command({"mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mount_point_}).ok();
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  ~SmallFileSystem() {
    if (mounted_) {
      run_command({"umount", mount_point_});
    }
  }
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::string mount_point_;
  bool mounted_ = false;
};

TEST_F(ContainerCreateTest, FullFileSystem) {
  const std::string mount = path("small");
  const SmallFileSystem file_system(mount);
  if (!file_system.mounted()) {
    GTEST_SKIP() << "cannot mount a small file system (root?)";
  }
  CreateOptions wanted = options();
  wanted.container = mount + "/c.img";
  EXPECT_TRUE(fails_with(create(wanted), Errc::no_space, "free"));
  EXPECT_TRUE(std::filesystem::is_empty(mount));
  wanted.type = "luks1";
  wanted.preallocate = true;
  wanted.size_bytes = 7 * kMiB;
  EXPECT_TRUE(fails_with(create(wanted), Errc::no_space, "free"));
  EXPECT_TRUE(std::filesystem::is_empty(mount));
  wanted.preallocate = false;
  EXPECT_TRUE(create(wanted));
  EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(ContainerCreateTest, BlockDevice) {
  write_file(path("backing"), "");
  std::filesystem::resize_file(path("backing"), 20 * kMiB + 512);
  const testing::LoopDevice loop(path("backing"));
  if (loop.name().empty()) {
    GTEST_SKIP() << "no loop device to be had (root?)";
  }
  CreateOptions wanted = options();
  wanted.container = loop.name();
  wanted.size_bytes = 0;
  const Status created = create(wanted);
  EXPECT_TRUE(created) << created.error().message;
  {
    Result<Container> container = Container::open({wanted.container, {}, false});
    EXPECT_EQ(our_key(container).size(), 64U);
    if (container) {
      EXPECT_EQ(container->info().image_size_bytes, 4 * kMiB + 512);
      EXPECT_EQ(container->spec().sector_size_bytes, 512U);
    }
    EXPECT_TRUE(fails_with(create(wanted), Errc::busy, ""));
  }
  EXPECT_TRUE(fails_with(create(wanted), Errc::exists, "--force"));
  wanted.force = true;
  EXPECT_TRUE(create(wanted));
  EXPECT_TRUE(
      run_command({"cryptsetup", "open", "--test-passphrase", "--key-file", "-", wanted.container},
                  kPassphrase)
          .ok());
  wanted.sector_size_bytes = 4096;
  EXPECT_TRUE(fails_with(create(wanted), Errc::invalid_argument, "does not divide"));
}

}  // namespace
}  // namespace cryptimg
