// SPDX-License-Identifier: GPL-3.0-or-later
//
// What is read from /proc/crypto, on texts as machines with and without crypto hardware show them.
#include "engines/afalg_drivers.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace cryptimg::test {
namespace {

// One entry as the kernel prints it.
std::string entry(const std::string& name, const std::string& driver, const std::string& async,
                  int priority = 300, const std::string& type = "skcipher",
                  const std::string& selftest = "passed", const std::string& internal = "no") {
  std::string text;
  text += "name         : " + name + "\n";
  text += "driver       : " + driver + "\n";
  text += "module       : some_module\n";
  text += "priority     : " + std::to_string(priority) + "\n";
  text += "refcnt       : 1\n";
  text += "selftest     : " + selftest + "\n";
  text += "internal     : " + internal + "\n";
  text += "type         : " + type + "\n";
  text += "async        : " + async + "\n";
  text += "blocksize    : 16\nmin keysize  : 16\nmax keysize  : 32\nivsize       : 16\n";
  text += "chunksize    : 16\nwalksize     : 16\n\n";
  return text;
}

// An x86 machine of Linux 6.1: the vector code counts as asynchronous there, being wrapped.
std::string laptop() {
  return entry("cbc(aes)", "cryptd(__cbc-aes-aesni)", "yes", 450, "skcipher", "passed", "yes") +
         entry("xts(aes)", "xts-aes-aesni", "yes", 401) +
         entry("__xts(aes)", "__xts-aes-aesni", "no", 401, "skcipher", "passed", "yes") +
         entry("cbc(aes)", "cbc-aes-aesni", "yes", 400) +
         entry("xts(aes)", "xts-aes-vaes-avx10_512", "yes", 800) +
         entry("ecb(aes)", "ecb(aes-generic)", "no", 100) +
         entry("aes", "aes-generic", "no", 100, "cipher") +
         entry("sha256", "sha256-generic", "no", 100, "shash") +
         entry("cbc(aes)", "pcrypt(cbc-aes-aesni)", "yes", 700);
}

// An Allwinner board: its crypto engine is called ce, as the instructions of ARM are.
std::string board() {
  return entry("cbc(aes)", "cbc-aes-ce", "yes", 300) + entry("xts(aes)", "xts-aes-ce", "yes", 300) +
         entry("cbc(aes)", "cbc-aes-neonbs", "yes", 250) +
         entry("cbc(aes)", "cbc-aes-sun8i-ce", "yes", 400) +
         entry("ecb(aes)", "ecb-aes-sun8i-ce", "yes", 400) +
         entry("cbc(des3_ede)", "cbc-des3-sun8i-ce", "yes", 400);
}

std::vector<std::string> hardware_in(const std::string& text) {
  std::vector<std::string> names;
  for (const AlgDriver& driver : parse_proc_crypto(text)) {
    if (driver.is_hardware) {
      names.push_back(driver.name);
    }
  }
  return names;
}

TEST(ProcCrypto, ReadsEachFieldThatMatters) {
  const auto drivers = parse_proc_crypto(entry("cbc(aes)", "virtio_crypto_aes_cbc", "yes", 150));
  ASSERT_EQ(drivers.size(), 1U);
  EXPECT_EQ(drivers[0], (AlgDriver{"virtio_crypto_aes_cbc", AlgMode::cbc, 150, true}));
  EXPECT_EQ(parse_proc_crypto(entry("xts(aes)", "x", "no"))[0].mode, AlgMode::xts);
  EXPECT_EQ(parse_proc_crypto(entry("ecb(aes)", "x", "no"))[0].mode, AlgMode::ecb);
  EXPECT_EQ(parse_proc_crypto(entry("ecb(aes)", "x", "yes", 1, "ablkcipher")).size(), 1U);
}

TEST(ProcCrypto, TheCpuIsNoHardware) {
  EXPECT_TRUE(hardware_in(laptop()).empty());
  EXPECT_GT(parse_proc_crypto(laptop()).size(), 4U);
}

TEST(ProcCrypto, AnEngineIsToldFromInstructionsOfTheSameName) {
  EXPECT_EQ(hardware_in(board()),
            (std::vector<std::string>{"cbc-aes-sun8i-ce", "ecb-aes-sun8i-ce"}));
}

TEST(ProcCrypto, DriversOfManyMakersAreHardware) {
  for (const char* name :
       {"cbc-aes-omap", "mv-cbc-aes", "mv-ecb-aes", "cbc-aes-ccree", "xts-aes-ccree",
        "cbc-aes-caam", "cbc-aes-caam-qi2", "virtio_crypto_aes_cbc", "qat_aes_xts", "atmel-cbc-aes",
        "safexcel-cbc-aes", "cbc-aes-ccp", "stm32-cbc-aes", "cbc-aes-qce"}) {
    EXPECT_TRUE(is_hardware_name(name)) << name;
  }
}

TEST(ProcCrypto, CodeInstructionsAndWrappersAreNot) {
  for (const char* name :
       {"", "cbc(aes-generic)", "ecb(aes-fixed-time)", "cryptd(cbc-aes-omap)",
        "pcrypt(cbc-aes-omap)", "xts(ecb-aes-omap)", "cbc-aes-aesni", "xts-aes-aesni-avx",
        "xts-aes-vaes-avx2", "cbc-aes-ce", "cbc-aes-neon", "xts-aes-neonbs", "ecb-aes-arm",
        "cbc-aes-padlock", "cbc-aes-s390", "p8_aes_cbc", "ecb-aes-lib", "xts-aes-simd"}) {
    EXPECT_FALSE(is_hardware_name(name)) << name;
  }
}

TEST(ProcCrypto, WhatCannotBeUsedIsLeftOut) {
  EXPECT_TRUE(parse_proc_crypto("").empty());
  EXPECT_TRUE(parse_proc_crypto("\n\n: \nname\n").empty());
  EXPECT_TRUE(parse_proc_crypto(entry("cbc(aes)", "hw", "yes", 1, "skcipher", "unknown")).empty());
  EXPECT_TRUE(
      parse_proc_crypto(entry("cbc(aes)", "hw", "yes", 1, "skcipher", "passed", "yes")).empty());
  EXPECT_TRUE(parse_proc_crypto(entry("cbc(aes)", "hw", "yes", 1, "aead")).empty());
  EXPECT_TRUE(parse_proc_crypto(entry("ctr(aes)", "hw", "yes")).empty());
  EXPECT_TRUE(parse_proc_crypto(entry("cbc(paes)", "hw", "yes")).empty());
  EXPECT_TRUE(hardware_in(entry("cbc(aes)", "hw", "no")).empty());
}

TEST(ProcCrypto, TheLastEntryNeedsNoEmptyLine) {
  std::string text = entry("cbc(aes)", "hw", "yes");
  text.resize(text.size() - 2);
  EXPECT_EQ(hardware_in(text), std::vector<std::string>{"hw"});
}

TEST(FindDriver, ListedOrATemplateOrNothing) {
  EXPECT_EQ(find_driver(board(), "cbc-aes-sun8i-ce")->is_hardware, true);
  EXPECT_EQ(find_driver(board(), "cbc-aes-ce")->is_hardware, false);
  EXPECT_FALSE(find_driver(board(), "cbc-aes-omap"));
  EXPECT_FALSE(find_driver("", ""));
  EXPECT_EQ(find_driver("", "cbc(aes-generic)")->mode, AlgMode::cbc);
  EXPECT_EQ(find_driver("", "xts(ecb(aes-generic))")->mode, AlgMode::xts);
  EXPECT_EQ(find_driver("", "cryptd(ecb(aes-generic))")->mode, AlgMode::ecb);
  EXPECT_EQ(find_driver("", "cryptd(ecb(aes-generic))")->is_hardware, false);
}

TEST(BestHardware, ServesMostOfTheCipherThenHasPriority) {
  const AlgDriver ecb{"ecb", AlgMode::ecb, 900, true};
  const AlgDriver cbc{"cbc", AlgMode::cbc, 100, true};
  const AlgDriver better_cbc{"better-cbc", AlgMode::cbc, 200, true};
  const AlgDriver software{"software", AlgMode::cbc, 5000, false};
  EXPECT_EQ(best_hardware({ecb, cbc, software, better_cbc}, CipherMode::aes_cbc), better_cbc);
  EXPECT_EQ(best_hardware({cbc, ecb, software}, CipherMode::aes_xts), ecb);
  EXPECT_EQ(best_hardware({cbc}, CipherMode::aes_xts), cbc);
  EXPECT_FALSE(best_hardware({software}, CipherMode::aes_cbc));
  EXPECT_FALSE(best_hardware({{"xts", AlgMode::xts, 1, true}}, CipherMode::aes_cbc));
  EXPECT_FALSE(best_hardware({}, CipherMode::aes_cbc));
}

}  // namespace
}  // namespace cryptimg::test
