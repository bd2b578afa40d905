// SPDX-License-Identifier: GPL-3.0-or-later
//
// Every engine against published vectors, and against what the kernel's dm-crypt wrote.
#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "tests/engines/engine_cases.h"
#include "tests/support/reference_cipher.h"
#include "tests/support/vector_file.h"

namespace cryptimg::test {
namespace {

class EngineVectors : public ::testing::TestWithParam<std::string> {};

// Expects that a sector beginning with `source` is transformed to one beginning with `target`.
void expect_prefix(CipherSession& session, Direction direction, std::uint64_t sector, Bytes source,
                   Bytes target, const std::string& place) {
  ByteVector data(512);
  std::copy(source.begin(), source.end(), data.begin());
  const ByteVector result = transformed(session, direction, sector, data);
  EXPECT_TRUE(std::equal(target.begin(), target.end(), result.begin())) << place;
}

TEST_P(EngineVectors, Ieee1619) {
  int checked = 0;
  for_each_vector("ieee1619_xts.txt", [&](VectorRecord& record) {
    const std::string place = record.place() + " " + record.text("name");
    const ByteVector key = record.bytes("key");
    const std::uint64_t counter = record.number("counter");
    const ByteVector plain = record.bytes("plaintext");
    const ByteVector cipher = record.bytes("ciphertext");
    ASSERT_TRUE(plain.size() == cipher.size() && plain.size() <= 512) << place;

    const CipherSpec spec{CipherMode::aes_xts, IvMode::plain64,
                          static_cast<std::uint32_t>(key.size()), 512};
    const auto engine = engine_for(GetParam(), spec);
    if (!engine) {
      return;
    }
    const auto session = engine->new_session(spec, secret(key));
    if (!session) {
      const auto half = static_cast<std::ptrdiff_t>(key.size() / 2);
      EXPECT_TRUE(std::equal(key.begin(), key.begin() + half, key.begin() + half)) << place;
      EXPECT_NE(session.error().message.find("halves"), std::string::npos) << place;
      return;
    }
    expect_prefix(**session, Direction::encrypt, counter, plain, cipher, place);
    expect_prefix(**session, Direction::decrypt, counter, cipher, plain, place);
    ++checked;
  });
  if (checked == 0) {
    GTEST_SKIP() << "no AES-XTS by this engine here";
  }
  EXPECT_GE(checked, 14);
}

// The vectors' IV is no sector's IV. CBC enciphers P[0] xor IV, so with W = (the vector's IV) xor
// (the sector's IV), a first block of P[0] xor W gives the vector's ciphertext, and back.
TEST_P(EngineVectors, Sp80038aCbc) {
  constexpr std::uint64_t kSector = (std::uint64_t{1} << 40) + 3;
  int checked = 0;
  for_each_vector("sp800_38a_cbc.txt", [&](VectorRecord& record) {
    const std::string place = record.place() + " " + record.text("name");
    const ByteVector key = record.bytes("key");
    const ByteVector vector_iv = record.bytes("iv");
    const ByteVector plain = record.bytes("plaintext");
    const ByteVector cipher = record.bytes("ciphertext");
    ASSERT_TRUE(vector_iv.size() == 16 && plain.size() == cipher.size()) << place;

    for (const IvMode iv : {IvMode::plain, IvMode::plain64, IvMode::essiv_sha256}) {
      const CipherSpec spec{CipherMode::aes_cbc, iv, static_cast<std::uint32_t>(key.size()), 512};
      const auto engine = engine_for(GetParam(), spec);
      if (!engine) {
        continue;
      }
      const Block sector_iv = ReferenceCipher(spec, key).iv(kSector);
      ByteVector whitened = plain;
      for (std::size_t i = 0; i < sector_iv.size(); ++i) {
        whitened[i] ^= vector_iv[i] ^ sector_iv[i];
      }
      const auto session = session_for(*engine, spec, key);
      ASSERT_NE(session, nullptr);
      expect_prefix(*session, Direction::encrypt, kSector, whitened, cipher, place);
      expect_prefix(*session, Direction::decrypt, kSector, cipher, whitened, place);
      ++checked;
    }
  });
  if (checked == 0) {
    GTEST_SKIP() << "no AES-CBC by this engine here";
  }
}

ByteVector dm_crypt_plaintext() {
  ByteVector plain(8192);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    plain[i] = static_cast<std::byte>((i * i + 3 * (i / 256) + i) % 251);
  }
  return plain;
}

ByteVector dm_crypt_key(std::size_t size_bytes) {
  ByteVector key(size_bytes);
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::byte>((7 * i + 1) % 256);
  }
  return key;
}

TEST_P(EngineVectors, EqualsDmCrypt) {
  const ByteVector plain = dm_crypt_plaintext();
  int records = 0;
  int checked = 0;
  for_each_vector("dm_crypt.txt", [&](VectorRecord& record) {
    ++records;
    const Result<CipherSpec> cipher = parse_cipher_name(record.text("cipher"));
    ASSERT_TRUE(cipher) << record.place();
    CipherSpec spec = *cipher;
    spec.key_size_bytes = static_cast<std::uint32_t>(record.number("key_size"));
    spec.sector_size_bytes = static_cast<std::uint32_t>(record.number("sector_size"));
    const ByteVector key = dm_crypt_key(spec.key_size_bytes);
    const ReferenceCipher reference(spec, key);
    const auto engine = engine_for(GetParam(), spec);
    const auto session = engine ? session_for(*engine, spec, key) : nullptr;

    for (const std::uint64_t counter :
         {std::uint64_t{0}, kPlainWrap - 8, (std::uint64_t{1} << 40) + 8}) {
      const ByteVector digest = record.bytes("sha256_at_" + std::to_string(counter));
      const std::uint64_t sector = counter / (spec.sector_size_bytes / kIvUnitBytes);
      const ByteVector expected = reference.transform(Direction::encrypt, sector, plain);
      EXPECT_EQ(sha256(expected), digest) << "the reference itself, " << record.place();
      if (session) {
        EXPECT_EQ(sha256(transformed(*session, Direction::encrypt, sector, plain)), digest)
            << record.place();
        EXPECT_EQ(transformed(*session, Direction::decrypt, sector, expected), plain)
            << record.place();
        ++checked;
      }
    }
  });
  EXPECT_EQ(records, static_cast<int>(every_cipher().size() * kSectorSizes.size()));
  if (checked == 0) {
    GTEST_SKIP() << "this engine serves nothing here";
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineVectors, ::testing::ValuesIn(every_engine()),
                         [](const ::testing::TestParamInfo<std::string>& param) {
                           return identifier(param.param);
                         });

}  // namespace
}  // namespace cryptimg::test
