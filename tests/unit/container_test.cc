// SPDX-License-Identifier: GPL-3.0-or-later
//
// Opening containers that cryptsetup made: what is served, with which key, and what is refused.
#include "core/container.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/container_file.h"
#include "tests/support/container_fixture.h"
#include "tests/support/loop_device.h"
#include "tests/support/luks2_edit.h"

namespace cryptimg {
namespace {

using testing::edit_luks2_json;
using testing::fails_with;
using testing::kPassphrase;
using testing::read_file;
using testing::run_command;
using testing::secret_of;
using testing::write_file;

using ContainerTest = testing::ContainerFixture;

struct CipherCase {
  const char* type;
  const char* cipher;
  std::uint32_t key_bits;
  std::uint32_t sector_bytes;
};

class ContainerCipherTest : public testing::ContainerFixture,
                            public ::testing::WithParamInterface<CipherCase> {};

TEST_P(ContainerCipherTest, OpensWithCryptsetupsKey) {
  const CipherCase& wanted = GetParam();
  std::vector<std::string> arguments = {"-c", wanted.cipher, "-s", std::to_string(wanted.key_bits)};
  if (std::string(wanted.type) == "luks2") {
    arguments.insert(arguments.end(), {"--sector-size", std::to_string(wanted.sector_bytes)});
  }
  ASSERT_NO_FATAL_FAILURE(format(arguments, wanted.type));
  Result<Container> container = open();
  EXPECT_EQ(our_key(container), cryptsetup_key(path()));
  ASSERT_TRUE(container);
  EXPECT_EQ(container->info().cipher, wanted.cipher);
  EXPECT_EQ(cipher_name(container->spec()), wanted.cipher);
  EXPECT_EQ(container->spec().key_size_bytes, wanted.key_bits / 8);
  EXPECT_EQ(container->spec().sector_size_bytes, wanted.sector_bytes);
  EXPECT_EQ(container->info().data_offset_bytes + container->info().image_size_bytes, 6U << 20);
  EXPECT_EQ(container->info().refusal, "");
}

INSTANTIATE_TEST_SUITE_P(All, ContainerCipherTest,
                         ::testing::Values(CipherCase{"luks2", "aes-xts-plain64", 512, 512},
                                           CipherCase{"luks2", "aes-xts-plain64", 256, 1024},
                                           CipherCase{"luks2", "aes-xts-plain64", 512, 2048},
                                           CipherCase{"luks2", "aes-xts-plain", 512, 4096},
                                           CipherCase{"luks2", "aes-cbc-essiv:sha256", 128, 512},
                                           CipherCase{"luks2", "aes-cbc-plain64", 192, 4096},
                                           CipherCase{"luks2", "aes-cbc-plain", 256, 512},
                                           CipherCase{"luks1", "aes-xts-plain64", 512, 512},
                                           CipherCase{"luks1", "aes-cbc-essiv:sha256", 256, 512}));

TEST_F(ContainerTest, TellsWhatTheHeaderSays) {
  ASSERT_NO_FATAL_FAILURE(
      format({"--label", "my label", "--uuid", "01234567-89ab-cdef-0123-456789abcdef"}));
  const Result<ContainerInfo> info = Container::inspect({path(), {}, true});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->type, "LUKS2");
  EXPECT_EQ(info->label, "my label");
  EXPECT_EQ(info->uuid, "01234567-89ab-cdef-0123-456789abcdef");
  EXPECT_EQ(info->metadata_size_bytes, 16384U);
  EXPECT_FALSE(info->detached_header);
  ASSERT_EQ(info->keyslots.size(), 1U);
  const KeyslotInfo& slot = info->keyslots[0];
  EXPECT_EQ(slot.number, 0);
  EXPECT_EQ(slot.priority, "normal");
  EXPECT_EQ(slot.kdf, "pbkdf2");
  EXPECT_EQ(slot.kdf_hash, "sha256");
  EXPECT_EQ(slot.iterations, 1000U);
  EXPECT_EQ(slot.area_cipher, "aes-xts-plain64");
  EXPECT_TRUE(slot.assigned_to_segment);
}

TEST_F(ContainerTest, DetachedHeader) {
  const std::string header = path("header");
  ASSERT_NO_FATAL_FAILURE(format({"--header", header, "--offset", "8192"}));
  {
    Result<Container> container = open(false, "c.img", header);
    EXPECT_EQ(our_key(container), cryptsetup_key(path(), {"--header", header}));
    ASSERT_TRUE(container);
    EXPECT_TRUE(container->info().detached_header);
    EXPECT_EQ(container->info().data_offset_bytes, 4U << 20);
    EXPECT_EQ(container->info().image_size_bytes, 2U << 20);
    // The lock is on the data.
    EXPECT_TRUE(fails_with(open(true, "c.img", header), Errc::busy, "already mounted"));
  }
  EXPECT_TRUE(fails_with(open(), Errc::corrupt, "no LUKS container"));
}

TEST_F(ContainerTest, DeviceReadsTheDataSegment) {
  ASSERT_NO_FATAL_FAILURE(format());
  std::string content = read_file(path());
  const std::string pattern = "ciphertext of sector 0";
  content.replace(2 << 20, pattern.size(), pattern);
  write_file(path(), content);
  Result<Container> container = open(true);
  ASSERT_TRUE(container) << container.error().message;
  const std::unique_ptr<BlockDevice> device = *container->take_device();
  std::string read(pattern.size(), '\0');
  ASSERT_TRUE(device->read(0, std::as_writable_bytes(std::span(read))));
  EXPECT_EQ(read, pattern);
}

TEST_F(ContainerTest, KeyslotsAndPassphrases) {
  ASSERT_NO_FATAL_FAILURE(format());
  const std::string other = path("other");
  const std::string first = path("first");
  write_file(first, std::string(kPassphrase));
  write_file(other, "other");
  const std::vector<std::string> cheap = {"--pbkdf", "pbkdf2",     "--pbkdf-force-iterations",
                                          "1000",    "--key-file", first};
  std::vector<std::string> add = {"cryptsetup", "-q", "luksAddKey"};
  add.insert(add.end(), cheap.begin(), cheap.end());
  add.insert(add.end(), {"--key-slot", "5", path(), other});
  ASSERT_TRUE(run_command(add).ok());
  // A key of the same size that is none of the data's.
  ASSERT_TRUE(run_command({"cryptsetup", "-q", "luksAddKey", "--unbound", "-s", "512", "--pbkdf",
                           "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-slot", "7",
                           "--key-file", other, path(), other})
                  .ok());

  Result<Container> container = open();
  EXPECT_EQ(our_key(container, "other"), cryptsetup_key(path()));
  ASSERT_TRUE(container);
  EXPECT_TRUE(container->unlock(secret_of("other"), 5));
  EXPECT_TRUE(fails_with(container->unlock(secret_of("other"), 0), Errc::wrong_key, "keyslot 0"));
  EXPECT_TRUE(fails_with(container->unlock(secret_of("no"), {}), Errc::wrong_key, "no keyslot"));
  EXPECT_TRUE(fails_with(container->unlock(Secret(), {}), Errc::wrong_key, "no keyslot"));
  EXPECT_TRUE(fails_with(container->unlock(secret_of("other"), 7), Errc::not_found, "keyslot 7"));
  EXPECT_TRUE(fails_with(container->unlock(secret_of("other"), 3), Errc::not_found, "keyslot 3"));
  EXPECT_TRUE(fails_with(container->unlock(secret_of("other"), 99), Errc::not_found, "99"));
  EXPECT_TRUE(fails_with(container->unlock(secret_of("other"), -1), Errc::not_found, "-1"));

  ASSERT_TRUE(
      run_command({"cryptsetup", "-q", "config", "--key-slot", "5", "--priority", "ignore", path()})
          .ok());
  container = fail(Errc::io);  // lets go of the lock
  container = open();
  ASSERT_TRUE(container);
  EXPECT_TRUE(fails_with(container->unlock(secret_of("other"), {}), Errc::wrong_key, "no keyslot"));
  EXPECT_TRUE(container->unlock(secret_of("other"), 5));
}

TEST_F(ContainerTest, Argon2AndItsMemory) {
  ASSERT_NO_FATAL_FAILURE(format({"--pbkdf", "argon2id", "--pbkdf-force-iterations", "4",
                                  "--pbkdf-memory", "32", "--pbkdf-parallel", "1"}));
  {
    Result<Container> container = open();
    EXPECT_EQ(our_key(container), cryptsetup_key(path()));
    ASSERT_TRUE(container);
    EXPECT_EQ(container->info().keyslots.at(0).kdf, "argon2id");
    EXPECT_EQ(container->info().keyslots.at(0).memory_kib, 32U);
    EXPECT_EQ(container->info().keyslots.at(0).parallel, 1U);
  }
  ASSERT_TRUE(edit_luks2_json(path(), "\"memory\":32", "\"memory\":2147483647"));
  Result<Container> container = open();
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_TRUE(fails_with(container->unlock(secret_of(kPassphrase), {}), Errc::out_of_memory,
                         "2147483647 KiB"));
}

TEST_F(ContainerTest, RefusesOtherCiphersAndChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(format({"-c", "aes-ctr-plain64", "-s", "256"}));
  const std::string before = read_file(path());
  EXPECT_TRUE(fails_with(open(), Errc::unsupported, "aes-ctr-plain64"));
  EXPECT_TRUE(fails_with(open(true), Errc::unsupported, "aes-ctr-plain64"));
  const Result<ContainerInfo> info = Container::inspect({path(), {}, true});
  ASSERT_TRUE(info);
  EXPECT_NE(info->refusal.find("aes-ctr-plain64"), std::string::npos);
  EXPECT_EQ(info->cipher, "aes-ctr-plain64");
  EXPECT_EQ(read_file(path()), before);
}

struct EditCase {
  const char* from;
  const char* to;
  Errc code;
  const char* says;
};

TEST_F(ContainerTest, EditedHeadersAreRefused) {
  ASSERT_NO_FATAL_FAILURE(format({"--sector-size", "512"}));
  const std::string pristine = read_file(path());
  const EditCase cases[] = {
      {R"("iv_tweak":"0")", R"("iv_tweak":"8")", Errc::unsupported, "iv_tweak 8"},
      {R"("size":"dynamic")",
       R"j("size":"dynamic","integrity":{"type":"hmac(sha256)","journal_encryption":"none",)j"
       R"j("journal_integrity":"none"})j",
       Errc::unsupported, "hmac(sha256)"},
      {R"("size":"dynamic")", R"("size":"4194816")", Errc::corrupt, "6291968"},
      {R"("size":"dynamic")", R"("size":"18446744073709551104")", Errc::corrupt, ""},
      {R"("config":{)", R"("config":{"requirements":{"mandatory":["time-travel"]},)",
       Errc::unsupported, "time-travel"},
      {R"("encryption":"aes-xts-plain64")", R"("encryption":"cipher_null-ecb")", Errc::unsupported,
       "cipher_null-ecb"},
      {R"("encryption":"aes-xts-plain64","key_size":64)",
       R"("encryption":"aes-xts-plain64","key_size":2147483647)", Errc::unsupported, "2147483647"},
      {R"("offset":"2097152")", R"("offset":"1048576")", Errc::corrupt, ""},
      {R"("offset":"2097152")", R"("offset":"9437184")", Errc::corrupt, "9437696"},
  };
  for (const EditCase& edit : cases) {
    write_file(path(), pristine);
    ASSERT_TRUE(edit_luks2_json(path(), edit.from, edit.to)) << edit.from;
    const std::string before = read_file(path());
    EXPECT_TRUE(fails_with(open(), edit.code, edit.says)) << edit.to;
    EXPECT_EQ(read_file(path()), before) << edit.to;
  }
}

TEST_F(ContainerTest, ReencryptionUnderWayIsRefused) {
  ASSERT_NO_FATAL_FAILURE(format({}, "luks2", std::uint64_t{8} << 20));
  write_file(path("first"), std::string(kPassphrase));
  const auto begun = run_command(
      {"cryptsetup", "-q", "reencrypt", "--init-only", "--force-offline-reencrypt", "--pbkdf",
       "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", path("first"), path()});
  if (!begun.ok()) {
    GTEST_SKIP() << "cryptsetup cannot begin one here: " << begun.output;
  }
  const std::string before = read_file(path());
  EXPECT_TRUE(fails_with(open(), Errc::unsupported, "re-encryption is under way"));
  EXPECT_TRUE(fails_with(open(true), Errc::unsupported, "re-encryption is under way"));
  EXPECT_EQ(read_file(path()), before);
}

TEST_F(ContainerTest, ShortContainers) {
  ASSERT_NO_FATAL_FAILURE(format({"--sector-size", "4096"}));
  ASSERT_TRUE(edit_luks2_json(path(), R"("size":"dynamic")", R"("size":"4194304")"));
  EXPECT_TRUE(open());
  std::filesystem::resize_file(path(), 5 << 20);
  EXPECT_TRUE(fails_with(open(), Errc::corrupt, "6291456 bytes, but there are only 5242880"));
  {
    Result<Container> container = open(true);
    ASSERT_TRUE(container) << container.error().message;
    EXPECT_EQ(container->info().image_size_bytes, 4U << 20);
    const std::unique_ptr<BlockDevice> device = *container->take_device();
    std::vector<std::byte> sector(4096);
    EXPECT_TRUE(device->read(0, sector));
    EXPECT_TRUE(fails_with(device->read((4 << 20) - 4096, sector), Errc::io, ""));
  }
  // Not even the data's start is there, or the header's end.
  for (const unsigned size : {2U << 20, 1U << 20, 16384U, 600U, 3U, 0U}) {
    std::filesystem::resize_file(path(), size);
    EXPECT_TRUE(fails_with(open(), Errc::corrupt, "")) << size;
  }
}

TEST_F(ContainerTest, DynamicSegmentShorterThanItsOffset) {
  ASSERT_NO_FATAL_FAILURE(format());
  std::filesystem::resize_file(path(), 2 << 20);
  EXPECT_TRUE(fails_with(open(), Errc::corrupt, "but there are only 2097152"));
  EXPECT_TRUE(fails_with(open(true), Errc::corrupt, "but there are only 2097152"));
  // A torn last sector is left alone.
  std::filesystem::resize_file(path(), (2 << 20) + 3 * 4096 + 100);
  const Result<Container> container = open();
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_EQ(container->info().image_size_bytes % container->spec().sector_size_bytes, 0U);
}

TEST_F(ContainerTest, ShortLuks1) {
  ASSERT_NO_FATAL_FAILURE(format({}, "luks1"));
  std::filesystem::resize_file(path(), 1 << 20);
  EXPECT_TRUE(fails_with(open(), Errc::corrupt, "1048576"));
  EXPECT_TRUE(fails_with(open(true), Errc::corrupt, "1048576"));
}

TEST_F(ContainerTest, WhatIsNoContainer) {
  write_file(path("junk"), std::string(1 << 20, 'x'));
  EXPECT_TRUE(fails_with(open(false, "junk"), Errc::corrupt, "no LUKS container"));
  EXPECT_TRUE(fails_with(open(true, "absent"), Errc::not_found, "absent"));
  EXPECT_TRUE(fails_with(open(true, "."), Errc::unsupported, "neither"));
  EXPECT_TRUE(fails_with(Container::open({"/dev/null", {}, true}), Errc::unsupported, "neither"));
}

// A damaged first header is readable from its copy; libcryptsetup would then repair it.
TEST_F(ContainerTest, DamagedHeaderIsServedButNotRepaired) {
  ASSERT_NO_FATAL_FAILURE(format());
  const std::string key = cryptsetup_key(path());
  std::string damaged = read_file(path());
  damaged[4200] = static_cast<char>(damaged[4200] ^ 1);
  write_file(path(), damaged);
  for (const bool read_only : {true, false}) {
    Result<Container> container = open(read_only);
    EXPECT_EQ(our_key(container), key);
    EXPECT_EQ(read_file(path()), damaged);
  }
  EXPECT_TRUE(Container::inspect({path(), {}, true}));
  EXPECT_EQ(read_file(path()), damaged);
}

TEST_F(ContainerTest, WriterExcludesEverybody) {
  ASSERT_NO_FATAL_FAILURE(format());
  ASSERT_EQ(::symlink(path().c_str(), path("symlink").c_str()), 0);
  ASSERT_EQ(::link(path().c_str(), path("hardlink").c_str()), 0);
  {
    Result<Container> writer = open();
    ASSERT_TRUE(writer) << writer.error().message;
    for (const char* name : {"c.img", "symlink", "hardlink"}) {
      EXPECT_TRUE(fails_with(open(false, name), Errc::busy, "mounted"));
      EXPECT_TRUE(fails_with(open(true, name), Errc::busy, "mounted"));
    }
    EXPECT_TRUE(Container::inspect({path(), {}, true}));
    // The lock goes with the device.
    const std::unique_ptr<BlockDevice> device = *writer->take_device();
    writer = fail(Errc::io);
    EXPECT_TRUE(fails_with(open(), Errc::busy, "mounted"));
  }
  EXPECT_TRUE(open());
}

TEST_F(ContainerTest, ReadersShare) {
  ASSERT_NO_FATAL_FAILURE(format());
  Result<Container> first = open(true);
  Result<Container> second = open(true);
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_TRUE(fails_with(open(), Errc::busy, "mounted"));
}

TEST_F(ContainerTest, KeysCanBeAddedMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(format());
  Result<Container> container = open();
  ASSERT_TRUE(container);
  write_file(path("first"), std::string(kPassphrase));
  write_file(path("other"), "other");
  const auto added = run_command({"cryptsetup", "-q", "luksAddKey", "--pbkdf", "pbkdf2",
                                  "--pbkdf-force-iterations", "1000", "--key-file", path("first"),
                                  path(), path("other")});
  EXPECT_TRUE(added.ok()) << added.output;
  container = fail(Errc::io);
  container = open();
  EXPECT_EQ(our_key(container, "other"), cryptsetup_key(path()));
}

TEST_F(ContainerTest, UserWhoMayOnlyReadIsServed) {
  ASSERT_NO_FATAL_FAILURE(format());
  ASSERT_EQ(::chmod(path().c_str(), 0400), 0);
  EXPECT_TRUE(open(true));
  if (::geteuid() != 0) {
    EXPECT_TRUE(fails_with(open(), Errc::permission, "reading and writing"));
  }
}

TEST_F(ContainerTest, LoopDevices) {
  ASSERT_NO_FATAL_FAILURE(format());
  ASSERT_EQ(::link(path().c_str(), path("hardlink").c_str()), 0);
  const testing::LoopDevice loop(path());
  if (loop.name().empty()) {
    GTEST_SKIP() << "no loop device to be had (root?)";
  }
  EXPECT_TRUE(fails_with(open(), Errc::busy, loop.name()));
  EXPECT_TRUE(open(true));
  std::filesystem::remove(path());
  EXPECT_TRUE(fails_with(open(false, "hardlink"), Errc::busy, loop.name()));

  // The device itself is a container, taken with O_EXCL.
  Result<Container> device = Container::open({loop.name(), {}, false});
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->info().image_size_bytes, 4U << 20);
  EXPECT_TRUE(device->unlock(secret_of(kPassphrase), {}));
  EXPECT_TRUE(fails_with(Container::open({loop.name(), {}, false}), Errc::busy, "in use"));
  EXPECT_TRUE(fails_with(Container::open({loop.name(), {}, true}), Errc::busy, "mounted"));
}

}  // namespace
}  // namespace cryptimg
