// SPDX-License-Identifier: GPL-3.0-or-later
//
// What every engine has to keep of the contract in core/cipher_engine.h, for every cipher, key size
// and sector size it serves. A new engine is taken up from the registry; nothing is added here.
// The afalg engine is there over fake drivers too, which every machine has.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engines/engine_cases.h"
#include "tests/support/reference_cipher.h"

namespace cryptimg::test {
namespace {

class EngineConformance : public ::testing::TestWithParam<std::tuple<std::string, CipherSpec>> {
 protected:
  void SetUp() override {
    const auto& [name, spec] = GetParam();
    engine_ = engine_for(name, spec);
    ASSERT_FALSE(HasFailure());
    if (engine_ == nullptr) {
      GTEST_SKIP() << name << " does not serve this here";
    }
    key_ = random_bytes(spec.key_size_bytes, 7);
  }

  static CipherSpec spec(std::uint32_t sector_size_bytes) {
    CipherSpec spec = std::get<1>(GetParam());
    spec.sector_size_bytes = sector_size_bytes;
    return spec;
  }
  [[nodiscard]] std::unique_ptr<CipherSession> session(std::uint32_t sector_size_bytes) const {
    return session_for(*engine_, spec(sector_size_bytes), key_);
  }
  // Sectors around which the IV's counter has its edges.
  static std::vector<std::uint64_t> edge_sectors(std::uint32_t sector_size_bytes) {
    const std::uint64_t units = sector_size_bytes / kIvUnitBytes;
    return {0,
            1,
            7,
            kPlainWrap / units - 3,
            kPlainWrap / units,
            (kPlainWrap << 8) / units + 5,
            (UINT64_MAX / sector_size_bytes) - 64};
  }

  std::shared_ptr<const CipherEngine> engine_;
  ByteVector key_;
};

TEST_P(EngineConformance, EqualsTheReference) {
  for (const std::uint32_t sector_bytes : kSectorSizes) {
    const auto session = this->session(sector_bytes);
    ASSERT_NE(session, nullptr);
    const ReferenceCipher reference(spec(sector_bytes), key_);
    for (const std::uint64_t first : edge_sectors(sector_bytes)) {
      const ByteVector data = random_bytes(std::size_t{5} * sector_bytes, 1);
      for (const Direction direction : kDirections) {
        EXPECT_EQ(transformed(*session, direction, first, data),
                  reference.transform(direction, first, data))
            << "sector " << first << " of " << sector_bytes;
      }
    }
  }
}

TEST_P(EngineConformance, EveryLengthEqualsTheReference) {
  const ReferenceCipher reference(spec(512), key_);
  const auto session = this->session(512);
  ASSERT_NE(session, nullptr);
  constexpr std::size_t kMostSectors = 70;
  const ByteVector data = random_bytes(kMostSectors * 512, 2);
  for (const Direction direction : kDirections) {
    const ByteVector expected = reference.transform(direction, 11, data);
    for (std::size_t size = 512; size <= data.size(); size += 512) {
      const ByteVector result = transformed(*session, direction, 11, Bytes(data).first(size));
      EXPECT_TRUE(std::equal(result.begin(), result.end(), expected.begin())) << size;
    }
  }
}

TEST_P(EngineConformance, EveryWayOfCuttingGivesTheSame) {
  constexpr unsigned kSectors = 7;
  for (const std::uint32_t sector_bytes : kSectorSizes) {
    const auto session = this->session(sector_bytes);
    ASSERT_NE(session, nullptr);
    const std::uint64_t first = kPlainWrap / (sector_bytes / kIvUnitBytes) - 3;
    const ByteVector data = random_bytes(std::size_t{kSectors} * sector_bytes, 3);
    for (const Direction direction : kDirections) {
      const ByteVector whole = transformed(*session, direction, first, data);
      // Bit i of `cuts` says whether the extent is cut after sector i.
      for (unsigned cuts = 0; cuts < 1U << (kSectors - 1); ++cuts) {
        ByteVector pieces(data.size());
        for (unsigned begin = 0, end = 1; begin < kSectors; begin = end, ++end) {
          while (end < kSectors && (cuts >> (end - 1) & 1U) == 0) {
            ++end;
          }
          const std::size_t at = std::size_t{begin} * sector_bytes;
          const std::size_t size = std::size_t{end - begin} * sector_bytes;
          ASSERT_TRUE(session->transform(direction, first + begin, Bytes(data).subspan(at, size),
                                         MutableBytes(pieces).subspan(at, size)));
        }
        ASSERT_EQ(pieces, whole) << "cuts " << cuts << ", sectors of " << sector_bytes;
      }
    }
  }
}

TEST_P(EngineConformance, InPlaceEqualsApart) {
  for (const std::uint32_t sector_bytes : kSectorSizes) {
    const auto session = this->session(sector_bytes);
    ASSERT_NE(session, nullptr);
    for (const std::size_t sectors : {1U, 2U, 16U, 33U}) {
      const ByteVector data = random_bytes(sectors * sector_bytes, 4);
      for (const Direction direction : kDirections) {
        ByteVector in_place = data;
        ASSERT_TRUE(session->transform(direction, 9, in_place, in_place));
        EXPECT_EQ(in_place, transformed(*session, direction, 9, data)) << sector_bytes;
      }
    }
  }
}

TEST_P(EngineConformance, RoundTripsALargeExtent) {
  for (const std::uint32_t sector_bytes : kSectorSizes) {
    const auto session = this->session(sector_bytes);
    ASSERT_NE(session, nullptr);
    const std::size_t size_bytes =
        std::min<std::size_t>((std::size_t{1} << 20) - std::size_t{3} * sector_bytes,
                              round_down(engine_->limits().max_bytes, sector_bytes));
    const ByteVector plain = random_bytes(size_bytes, 5);
    const ByteVector cipher = transformed(*session, Direction::encrypt, 123, plain);
    EXPECT_NE(cipher, plain);
    EXPECT_EQ(transformed(*session, Direction::decrypt, 123, cipher), plain) << sector_bytes;
  }
}

TEST_P(EngineConformance, TakesAnyAlignmentItPromises) {
  const std::size_t step = engine_->limits().alignment_bytes;
  constexpr std::size_t kSize = 4096;
  constexpr std::size_t kMostOffset = 64;
  const auto session = this->session(512);
  ASSERT_NE(session, nullptr);
  const ByteVector data = random_bytes(kSize, 6);
  for (const Direction direction : kDirections) {
    const ByteVector expected = transformed(*session, direction, 3, data);
    for (std::size_t from = 0; from <= kMostOffset; from += step) {
      const std::size_t to = (5 * from) % (kMostOffset + 1) / step * step;
      alignas(4096) std::array<std::byte, kSize + kMostOffset> source{};
      alignas(4096) std::array<std::byte, kSize + kMostOffset> target{};
      std::copy(data.begin(), data.end(), source.begin() + static_cast<std::ptrdiff_t>(from));
      const MutableBytes result = MutableBytes(target).subspan(to, kSize);
      ASSERT_TRUE(session->transform(direction, 3, Bytes(source).subspan(from, kSize), result));
      EXPECT_TRUE(std::equal(result.begin(), result.end(), expected.begin()))
          << "from " << from << " to " << to;
    }
  }
}

TEST_P(EngineConformance, WritesTheTargetAndNothingElse) {
  constexpr std::size_t kMargin = 64;
  const auto session = this->session(1024);
  ASSERT_NE(session, nullptr);
  const ByteVector source = random_bytes(5120, 8);
  const ByteVector source_before = random_bytes(5120, 8);
  for (const Direction direction : kDirections) {
    ByteVector target(source.size() + 2 * kMargin, std::byte{0xa5});
    ASSERT_TRUE(session->transform(direction, 0, source,
                                   MutableBytes(target).subspan(kMargin, source.size())));
    const auto untouched = [](std::byte byte) { return byte == std::byte{0xa5}; };
    EXPECT_TRUE(std::all_of(target.begin(), target.begin() + kMargin, untouched));
    EXPECT_TRUE(std::all_of(target.end() - kMargin, target.end(), untouched));
    EXPECT_EQ(source, source_before);
  }
}

TEST_P(EngineConformance, PlainWrapsAt32BitsAndTheOthersDoNot) {
  const bool wraps = std::get<1>(GetParam()).iv == IvMode::plain;
  for (const std::uint32_t sector_bytes : kSectorSizes) {
    const auto session = this->session(sector_bytes);
    ASSERT_NE(session, nullptr);
    const std::uint64_t wrap = kPlainWrap / (sector_bytes / kIvUnitBytes);
    const ByteVector data = random_bytes(std::size_t{2} * sector_bytes, 9);
    const ByteVector low = transformed(*session, Direction::encrypt, 0, data);
    EXPECT_EQ(transformed(*session, Direction::encrypt, wrap, data) == low, wraps);
    EXPECT_NE(transformed(*session, Direction::encrypt, wrap - 1, data), low);
    EXPECT_NE(transformed(*session, Direction::encrypt, 1, data), low);
  }
}

TEST_P(EngineConformance, TheCounterCountsUnitsOf512BytesWhateverTheSector) {
  const auto small = session(512);
  const auto large = session(4096);
  ASSERT_NE(small, nullptr);
  ASSERT_NE(large, nullptr);
  const ByteVector data = random_bytes(4096, 10);
  const ByteVector from_large = transformed(*large, Direction::encrypt, 5, data);
  const ByteVector from_small = transformed(*small, Direction::encrypt, 40, Bytes(data).first(512));
  EXPECT_TRUE(std::equal(from_small.begin(), from_small.end(), from_large.begin()));
}

TEST_P(EngineConformance, RefusesWhatIsNoWholeSectorsAndZeroesTheTarget) {
  const auto session = this->session(1024);
  ASSERT_NE(session, nullptr);
  const ByteVector source(4096);
  const auto refused = [&](std::uint64_t first, std::size_t source_bytes,
                           std::size_t target_bytes) {
    ByteVector target(target_bytes, std::byte{0xff});
    const Status status =
        session->transform(Direction::decrypt, first, Bytes(source).first(source_bytes), target);
    return !status && status.error().code == Errc::invalid_argument &&
           target == ByteVector(target_bytes);
  };
  EXPECT_TRUE(refused(0, 0, 0));
  EXPECT_TRUE(refused(0, 512, 512));
  EXPECT_TRUE(refused(0, 1025, 1025));
  EXPECT_TRUE(refused(0, 1024, 2048));
  EXPECT_TRUE(refused(0, 2048, 1024));
  EXPECT_TRUE(refused(UINT64_MAX, 1024, 1024));
  EXPECT_TRUE(refused(UINT64_MAX / 1024, 2048, 2048));
}

TEST_P(EngineConformance, RefusesSourceAndTargetThatOverlap) {
  const auto session = this->session(512);
  ASSERT_NE(session, nullptr);
  ByteVector memory(2048, std::byte{1});
  for (const std::size_t shift : {1U, 16U, 512U, 1023U}) {
    const Bytes low = Bytes(memory).first(1024);
    const MutableBytes high = MutableBytes(memory).subspan(shift, 1024);
    const Status status = session->transform(Direction::encrypt, 0, low, high);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::invalid_argument);
  }
  EXPECT_TRUE(session->transform(Direction::encrypt, 0, Bytes(memory).first(1024),
                                 MutableBytes(memory).subspan(1024)));
}

TEST_P(EngineConformance, RefusesKeysOfAnotherSize) {
  const CipherSpec spec = this->spec(512);
  for (const std::size_t size : {std::size_t{0}, key_.size() - 1, key_.size() + 1}) {
    const auto session = engine_->new_session(spec, secret(random_bytes(size, 11)));
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().code, Errc::invalid_argument);
  }
}

TEST_P(EngineConformance, SessionsOfSeveralThreadsDoNotMeet) {
  const ByteVector data = random_bytes(32768, 12);
  const auto session = this->session(512);
  ASSERT_NE(session, nullptr);
  const ByteVector expected = transformed(*session, Direction::encrypt, 77, data);
  std::vector<ByteVector> results(4);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (ByteVector& result : results) {
    threads.emplace_back([this, &data, &result] {
      const auto own = this->session(512);
      for (int round = 0; own != nullptr && round < 20; ++round) {
        result = transformed(*own, Direction::encrypt, 77, data);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const ByteVector& result : results) {
    EXPECT_EQ(result, expected);
  }
}

std::string case_name(const ::testing::TestParamInfo<EngineConformance::ParamType>& info) {
  const auto& [engine, spec] = info.param;
  return identifier(engine + "_" + cipher_name(spec) + "_" +
                    std::to_string(spec.key_size_bytes * 8));
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineConformance, ::testing::ValuesIn(every_engine_and_cipher()),
                         case_name);

}  // namespace
}  // namespace cryptimg::test
