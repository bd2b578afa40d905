// SPDX-License-Identifier: GPL-3.0-or-later
//
// The public images of cryptsetup's own test suite, hostile headers among them. They are not part
// of this project: the folder is $CRYPTIMG_IMAGES, by default shared/images beside the source tree,
// and where it is absent these tests are skipped.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "core/container.h"
#include "tests/support/container_fixture.h"

namespace cryptimg {
namespace {

using testing::fails_with;
using testing::read_file;
using testing::run_command;
using testing::secret_of;

class ContainerImagesTest : public testing::ContainerFixture {
 protected:
  void SetUp() override {
    const char* named = std::getenv("CRYPTIMG_IMAGES");
    images_ = named != nullptr ? named : CRYPTIMG_SOURCE_DIR "/../shared/images";
    if (!std::filesystem::is_directory(images_)) {
      GTEST_SKIP() << "no images in " << images_ << " (set CRYPTIMG_IMAGES)";
    }
  }

  // Unpacks NAME.xz into the test's directory.
  void unpack(const std::string& name) {
    std::filesystem::copy_file(images_ + "/" + name + ".xz", path(name + ".xz"));
    ASSERT_TRUE(run_command({"xz", "-d", path(name + ".xz")}).ok());
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  void unpack_archive(const std::string& name) {
    ASSERT_TRUE(run_command({"tar", "-xJ", "--no-same-owner", "-f", images_ + "/" + name, "-C",
                             dir_.path()})
                    .ok());
  }

  // Opens in both ways, expecting this refusal and that no byte changes.
  void expect_refused(const std::string& name, Errc code, const std::string& says) {
    const std::string before = read_file(path(name));
    ASSERT_FALSE(before.empty()) << name;
    EXPECT_TRUE(fails_with(open(false, name), code, says)) << name;
    EXPECT_TRUE(fails_with(open(true, name), code, says)) << name;
    EXPECT_TRUE(read_file(path(name)) == before) << name;
  }

  std::string images_;
};

TEST_F(ContainerImagesTest, HostileLuks1Headers) {
  for (const char* name : {"evil_hdr-keyslot_overlap", "evil_hdr-luks_hdr_damage",
                           "evil_hdr-payload_overwrite", "evil_hdr-stripes_payload_dmg"}) {
    ASSERT_NO_FATAL_FAILURE(unpack(name));
    expect_refused(name, Errc::corrupt, "keyslot");
  }
  ASSERT_NO_FATAL_FAILURE(unpack("evil_hdr-small_luks_device"));
  expect_refused("evil_hdr-small_luks_device", Errc::corrupt, "there are only 1049088");
}

TEST_F(ContainerImagesTest, OldContainersUnlock) {
  for (const char* name : {"compatimage.img", "compatimage2.img", "compatv10image.img"}) {
    ASSERT_NO_FATAL_FAILURE(unpack(name));
    const std::string before = read_file(path(name));
    Result<Container> container = open(false, name);
    EXPECT_EQ(our_key(container, "compatkey").size(), 16U) << name;
    EXPECT_TRUE(read_file(path(name)) == before) << name;
  }
}

TEST_F(ContainerImagesTest, UnknownRequirements) {
  ASSERT_NO_FATAL_FAILURE(unpack_archive("luks2_header_requirements.tar.xz"));
  for (const char* name : {"luks2_header_requirements", "luks2_header_requirements_free"}) {
    // Grown, so that nothing but the requirements stands in the way.
    std::filesystem::resize_file(path(name), 8 << 20);
  }
  expect_refused("luks2_header_requirements", Errc::unsupported, "req0, req1");
  EXPECT_TRUE(open(false, "luks2_header_requirements_free"));
}

TEST_F(ContainerImagesTest, OtherCiphers) {
  ASSERT_NO_FATAL_FAILURE(unpack("luks2_invalid_cipher.img"));
  expect_refused("luks2_invalid_cipher.img", Errc::unsupported, "capi:xts(ecb(aes-generic))");
  ASSERT_NO_FATAL_FAILURE(unpack_archive("luks1-images.tar.xz"));
  for (const char* cipher : {"serpent-xts-plain64", "twofish-xts-plain64"}) {
    expect_refused(std::string("luks1-images/luks1_") + cipher + "-sha256.img", Errc::unsupported,
                   cipher);
  }
  expect_refused("luks1-images/luks1_aes-lrw-plain64-sha1.img", Errc::unsupported, "aes-lrw");
  EXPECT_TRUE(open(false, "luks1-images/luks1_aes-xts-plain64-whirlpool.img"));
}

TEST_F(ContainerImagesTest, EverySizeOfMetadata) {
  ASSERT_NO_FATAL_FAILURE(unpack_archive("luks2_mda_images.tar.xz"));
  for (const char* size : {"16", "32", "64", "128", "256", "512", "1024", "2048", "4096"}) {
    const Result<Container> container = open(false, std::string("test_image_") + size);
    ASSERT_TRUE(container) << size << ": " << container.error().message;
    EXPECT_EQ(container->info().metadata_size_bytes, std::stoull(size) * 1024);
  }
}

TEST_F(ContainerImagesTest, UnboundKeyslot) {
  ASSERT_NO_FATAL_FAILURE(unpack("luks2_keyslot_unassigned.img"));
  Result<Container> container = open(false, "luks2_keyslot_unassigned.img");
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_FALSE(container->info().keyslots.at(1).assigned_to_segment);
  EXPECT_TRUE(fails_with(container->unlock(secret_of("x"), 1), Errc::not_found, "keyslot 1"));
}

TEST_F(ContainerImagesTest, KeyslotsWithAnUnknownKdf) {
  ASSERT_NO_FATAL_FAILURE(unpack("luks2_valid_hdr.img"));
  Result<Container> container = open(false, "luks2_valid_hdr.img");
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_FALSE(container->unlock(secret_of("x"), {}));
}

}  // namespace
}  // namespace cryptimg
