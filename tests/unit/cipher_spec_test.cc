// SPDX-License-Identifier: GPL-3.0-or-later
//
// The ciphers that are served, by name and by size, and how the others are refused.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/cipher_engine.h"

namespace cryptimg {
namespace {

TEST(CipherName, GoesThereAndBack) {
  const std::vector<std::string> served = {"aes-xts-plain", "aes-xts-plain64", "aes-cbc-plain",
                                           "aes-cbc-plain64", "aes-cbc-essiv:sha256"};
  for (const std::string& name : served) {
    const Result<CipherSpec> spec = parse_cipher_name(name);
    ASSERT_TRUE(spec) << name;
    EXPECT_EQ(cipher_name(*spec), name);
  }
}

TEST(CipherName, SaysModeAndIv) {
  const Result<CipherSpec> xts = parse_cipher_name("aes-xts-plain64");
  ASSERT_TRUE(xts);
  EXPECT_EQ(xts->mode, CipherMode::aes_xts);
  EXPECT_EQ(xts->iv, IvMode::plain64);
  const Result<CipherSpec> cbc = parse_cipher_name("aes-cbc-essiv:sha256");
  ASSERT_TRUE(cbc);
  EXPECT_EQ(cbc->mode, CipherMode::aes_cbc);
  EXPECT_EQ(cbc->iv, IvMode::essiv_sha256);
}

TEST(CipherName, RefusesOthersNamingThem) {
  const std::vector<std::string> others = {"",
                                           "aes",
                                           "aes-xts",
                                           "aes-xts-plain64be",
                                           "aes-xts-plain6",
                                           "aes-ecb",
                                           "null-ecb",
                                           "AES-XTS-PLAIN",
                                           "aes-cbc-essiv",
                                           "aes-cbc-essiv:sha1",
                                           "cipher_null-ecb",
                                           "serpent-xts-plain64",
                                           "aes-xts-essiv:sha256",
                                           "capi:xts(aes)-plain64",
                                           " aes-xts-plain64",
                                           "aes-xts-plain64 ",
                                           "aes-xts-random",
                                           "aes-adiantum-plain64"};
  for (const std::string& name : others) {
    const Result<CipherSpec> spec = parse_cipher_name(name);
    ASSERT_FALSE(spec) << name;
    EXPECT_EQ(spec.error().code, Errc::unsupported);
    EXPECT_NE(spec.error().message.find("'" + name + "'"), std::string::npos) << name;
  }
}

TEST(CipherName, NothingUnprintableOrEndlessReachesTheMessage) {
  const Result<CipherSpec> control = parse_cipher_name("aes\x1b[2J\nx\xff-xts");
  ASSERT_FALSE(control);
  EXPECT_NE(control.error().message.find("'aes\\x1b[2J\\x0ax\\xff-xts'"), std::string::npos);
  const Result<CipherSpec> endless = parse_cipher_name(std::string(1'000'000, 'x'));
  ASSERT_FALSE(endless);
  EXPECT_LT(endless.error().message.size(), 300U);
}

TEST(CheckSpec, TakesExactlyTheServedSizes) {
  for (const CipherMode mode : {CipherMode::aes_xts, CipherMode::aes_cbc}) {
    for (std::uint32_t key = 0; key <= 130; ++key) {
      const bool fits = mode == CipherMode::aes_xts ? key == 32 || key == 64
                                                    : key == 16 || key == 24 || key == 32;
      EXPECT_EQ(check_spec({mode, IvMode::plain64, key, 512}).has_value(), fits) << key;
    }
    for (std::uint32_t sector = 0; sector <= 8192; sector += 256) {
      const bool fits = sector == 512 || sector == 1024 || sector == 2048 || sector == 4096;
      EXPECT_EQ(check_spec({mode, IvMode::plain64, 32, sector}).has_value(), fits) << sector;
    }
  }
}

TEST(CheckSpec, NamesWhatDoesNotFit) {
  const Status key = check_spec({CipherMode::aes_xts, IvMode::plain64, 48, 512});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, Errc::unsupported);
  EXPECT_NE(key.error().message.find("384 bits"), std::string::npos);
  const Status sector = check_spec({CipherMode::aes_cbc, IvMode::plain64, 32, 8192});
  ASSERT_FALSE(sector);
  EXPECT_NE(sector.error().message.find("8192"), std::string::npos);
  const Status iv = check_spec({CipherMode::aes_xts, IvMode::essiv_sha256, 64, 512});
  ASSERT_FALSE(iv);
  EXPECT_NE(iv.error().message.find("aes-xts-essiv:sha256"), std::string::npos);
  const Status huge = check_spec({CipherMode::aes_cbc, IvMode::plain64, UINT32_MAX, 512});
  ASSERT_FALSE(huge);
  EXPECT_NE(huge.error().message.find("34359738360 bits"), std::string::npos);
}

}  // namespace
}  // namespace cryptimg
