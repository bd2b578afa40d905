// SPDX-License-Identifier: GPL-3.0-or-later
//
// Defaults and limits of `create`.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "core/container.h"

namespace cryptimg {
namespace {

CreateOptions options(const std::string& type = "luks2") {
  CreateOptions result;
  result.container = "container.img";
  result.type = type;
  result.size_bytes = 1 << 20;
  return result;
}

TEST(CreateOptionsTest, Luks2Defaults) {
  const Result<CreatePlan> plan = check_create_options(options(), false);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->spec, (CipherSpec{CipherMode::aes_xts, IvMode::plain64, 64, 4096}));
  EXPECT_EQ(plan->pbkdf, "argon2id");
  EXPECT_EQ(plan->image_size_bytes, 1U << 20);
  EXPECT_FALSE(plan->size_was_rounded);
}

TEST(CreateOptionsTest, Luks1Defaults) {
  const Result<CreatePlan> plan = check_create_options(options("luks1"), false);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->spec, (CipherSpec{CipherMode::aes_xts, IvMode::plain64, 64, 512}));
  EXPECT_EQ(plan->pbkdf, "pbkdf2");
}

TEST(CreateOptionsTest, CbcDefaultsTo256Bits) {
  CreateOptions cbc = options();
  cbc.cipher = "aes-cbc-essiv:sha256";
  const Result<CreatePlan> plan = check_create_options(cbc, false);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->spec, (CipherSpec{CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 4096}));
}

TEST(CreateOptionsTest, SizeIsRoundedUpToSectors) {
  CreateOptions odd = options();
  odd.size_bytes = 4097;
  const Result<CreatePlan> plan = check_create_options(odd, false);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->image_size_bytes, 8192U);
  EXPECT_TRUE(plan->size_was_rounded);
}

TEST(CreateOptionsTest, DeviceIsTakenWhole) {
  CreateOptions device = options();
  EXPECT_FALSE(check_create_options(device, true));
  device.size_bytes = 0;
  EXPECT_TRUE(check_create_options(device, true));
  device.preallocate = true;
  EXPECT_FALSE(check_create_options(device, true));
}

struct LegalCase {
  const char* name;
  std::function<void(CreateOptions&)> set;
};

TEST(CreateOptionsTest, LegalValues) {
  const LegalCase cases[] = {
      {"xts-plain 256", [](auto& o) { o.cipher = "aes-xts-plain", o.key_size_bits = 256; }},
      {"cbc-plain 128", [](auto& o) { o.cipher = "aes-cbc-plain", o.key_size_bits = 128; }},
      {"cbc-plain64 192", [](auto& o) { o.cipher = "aes-cbc-plain64", o.key_size_bits = 192; }},
      {"sector 512", [](auto& o) { o.sector_size_bytes = 512; }},
      {"sector 1024", [](auto& o) { o.sector_size_bytes = 1024; }},
      {"argon2i", [](auto& o) { o.pbkdf = "argon2i"; }},
      {"argon2 least",
       [](auto& o) {
         o.pbkdf_memory_kib = 32, o.pbkdf_parallel = 1, o.pbkdf_force_iterations = 4;
       }},
      {"pbkdf2 least", [](auto& o) { o.pbkdf = "pbkdf2", o.pbkdf_force_iterations = 1000; }},
      {"iter time", [](auto& o) { o.iter_time_ms = 1; }},
      {"label", [](auto& o) { o.label = std::string(47, 'x'); }},
      {"uuid", [](auto& o) { o.uuid = "01234567-89ab-cdef-0123-456789ABCDEF"; }},
  };
  for (const LegalCase& legal : cases) {
    CreateOptions candidate = options();
    legal.set(candidate);
    const Result<CreatePlan> plan = check_create_options(candidate, false);
    EXPECT_TRUE(plan) << legal.name << ": " << (plan ? "" : plan.error().message);
  }
}

struct IllegalCase {
  const char* type;
  std::function<void(CreateOptions&)> set;
  const char* says;
};

TEST(CreateOptionsTest, IllegalValuesAreNamed) {
  const IllegalCase cases[] = {
      {"luks3", [](auto&) {}, "luks2, luks1"},
      {"luks2", [](auto& o) { o.cipher = "serpent-xts-plain64"; }, "aes-xts-plain64, "},
      {"luks2", [](auto& o) { o.cipher = ""; }, "aes-xts-plain64, "},
      {"luks2", [](auto& o) { o.key_size_bits = 384; }, "256, 512"},
      {"luks2", [](auto& o) { o.cipher = "aes-cbc-plain64", o.key_size_bits = 512; },
       "128, 192, 256"},
      {"luks2", [](auto& o) { o.sector_size_bytes = 8192; }, "512, 1024, 2048, 4096"},
      {"luks1", [](auto& o) { o.sector_size_bytes = 4096; }, "can be 512"},
      {"luks2", [](auto& o) { o.pbkdf = "scrypt"; }, "argon2id, argon2i, pbkdf2"},
      {"luks1", [](auto& o) { o.pbkdf = "argon2id"; }, "can be pbkdf2"},
      {"luks2", [](auto& o) { o.pbkdf_memory_kib = 31; }, "32 to 4194304"},
      {"luks2", [](auto& o) { o.pbkdf_memory_kib = 4194305; }, "32 to 4194304"},
      {"luks2", [](auto& o) { o.pbkdf_parallel = 0; }, "1 to 4"},
      {"luks2", [](auto& o) { o.pbkdf_parallel = 5; }, "1 to 4"},
      {"luks2", [](auto& o) { o.pbkdf_force_iterations = 3; }, "4 to "},
      {"luks2", [](auto& o) { o.pbkdf = "pbkdf2", o.pbkdf_force_iterations = 999; }, "1000 to "},
      {"luks2", [](auto& o) { o.pbkdf = "pbkdf2", o.pbkdf_memory_kib = 1024; }, "argon2 only"},
      {"luks1", [](auto& o) { o.pbkdf_parallel = 2; }, "argon2 only"},
      {"luks2", [](auto& o) { o.iter_time_ms = 0; }, "1 or more"},
      {"luks2", [](auto& o) { o.iter_time_ms = 9, o.pbkdf_force_iterations = 4; }, "exclude"},
      {"luks2", [](auto& o) { o.label = std::string(48, 'x'); }, "47"},
      {"luks2", [](auto& o) { o.label = std::string("a\0b", 3); }, "control"},
      {"luks1", [](auto& o) { o.label = "x"; }, "luks1"},
      {"luks2", [](auto& o) { o.uuid = "not a uuid"; }, "form"},
      {"luks2", [](auto& o) { o.uuid = "01234567x89ab-cdef-0123-456789abcdef"; }, "form"},
      {"luks2", [](auto& o) { o.size_bytes = 0; }, "--size"},
      {"luks2", [](auto& o) { o.size_bytes = UINT64_MAX; }, "more than a file can hold"},
      {"luks2", [](auto& o) { o.size_bytes = INT64_MAX; }, "more than a file can hold"},
  };
  for (const IllegalCase& illegal : cases) {
    CreateOptions candidate = options(illegal.type);
    illegal.set(candidate);
    const Result<CreatePlan> plan = check_create_options(candidate, false);
    ASSERT_FALSE(plan) << illegal.says;
    EXPECT_EQ(plan.error().code, Errc::invalid_argument);
    EXPECT_NE(plan.error().message.find(illegal.says), std::string::npos) << plan.error().message;
  }
}

}  // namespace
}  // namespace cryptimg
