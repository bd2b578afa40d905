// SPDX-License-Identifier: GPL-3.0-or-later
//
// The afalg engine over a kernel that works: for drivers with ecb, cbc or xts only, every cipher is
// ciphered as OpenSSL does, by the driver wherever there is a form for it, in as few operations as
// promised. And how a driver is found or refused, and what its helper process has.
#include "engines/afalg_engine.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/afalg_helper.h"
#include "engines/block_algebra.h"
#include "tests/engines/engine_cases.h"
#include "tests/support/fake_alg_kernel.h"

namespace cryptimg::test {
namespace {

using std::chrono::milliseconds;

struct Rig {
  std::shared_ptr<FakeAlgKernel> kernel;
  std::shared_ptr<const CipherEngine> engine;
};

Rig afalg(AlgMode mode, AfalgOptions options = {}, std::size_t max_bytes = 131072) {
  auto kernel = std::make_shared<FakeAlgKernel>(mode, max_bytes);
  auto engine = make_afalg_engine(kernel, std::move(options));
  return {std::move(kernel), std::move(engine)};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using Case = std::tuple<AlgMode, CipherSpec>;

class AfalgEngineOver : public ::testing::TestWithParam<Case> {};

TEST_P(AfalgEngineOver, CiphersAsOpensslByTheDriver) {
  auto [mode, spec] = GetParam();
  std::mt19937_64 random(spec.key_size_bytes);
  AfalgOptions options;
  options.sample_every = 4;
  const Rig rig = afalg(mode, options);
  for (const std::uint32_t sector_bytes : kSectorSizes) {
    spec.sector_size_bytes = sector_bytes;
    ASSERT_TRUE(known_answer_test(*rig.engine, spec));
    const ByteVector key = random_bytes(spec.key_size_bytes, sector_bytes);
    const auto session = session_for(*rig.engine, spec, key);
    const auto oracle = session_for(*engine_for("openssl", spec), spec, key);
    ASSERT_TRUE(session != nullptr && oracle != nullptr);
    for (const Direction direction : kDirections) {
      const OffloadForm form = offload_form(spec.mode, mode, direction);
      for (const std::size_t kib : {4U, 64U, 68U, 128U, 1024U}) {
        const ByteVector source = random_bytes(kib * 1024, static_cast<std::uint32_t>(random()));
        const std::uint64_t first = random() % (std::uint64_t{1} << 36);
        const ByteVector right = transformed(*oracle, direction, first, source);
        const DriverCounters before = rig.engine->driver_counters();
        ASSERT_EQ(transformed(*session, direction, first, source), right) << kib;
        ByteVector in_place = source;
        ASSERT_TRUE(session->transform(direction, first, in_place, in_place));
        ASSERT_EQ(in_place, right) << kib << " in place";

        const DriverCounters after = rig.engine->driver_counters();
        const std::uint64_t bytes = 2 * source.size();
        const std::uint64_t operations = form == OffloadForm::none          ? 0
                                         : form == OffloadForm::cbc_sectors ? bytes / sector_bytes
                                                                            : 2 * ((kib + 63) / 64);
        EXPECT_EQ(after.bytes - before.bytes, form == OffloadForm::none ? 0 : bytes);
        EXPECT_EQ(after.operations - before.operations, operations);
        EXPECT_EQ(after.software_bytes - before.software_bytes,
                  form == OffloadForm::none ? bytes : 0);
      }
    }
  }
  EXPECT_EQ(rig.engine->driver_counters().fallbacks, 0U);
  EXPECT_EQ(rig.engine->driver_counters().quarantines, 0U);
  EXPECT_EQ(rig.kernel->operations(), rig.engine->driver_counters().operations);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const AlgMode mode : {AlgMode::ecb, AlgMode::cbc, AlgMode::xts}) {
    for (const CipherSpec& spec : every_cipher()) {
      if (offload_form(spec.mode, mode, Direction::decrypt) != OffloadForm::none) {
        all.emplace_back(mode, spec);
      }
    }
  }
  return all;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  const auto& [mode, spec] = info.param;
  return identifier(std::string(alg_name(mode).substr(0, 3)) + "_" + cipher_name(spec) + "_" +
                    std::to_string(spec.key_size_bytes * 8));
}

INSTANTIATE_TEST_SUITE_P(Drivers, AfalgEngineOver, ::testing::ValuesIn(cases()), case_name);

class AfalgEngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<CipherSession> session(const CipherEngine& engine) const {
    return session_for(engine, spec_, key_);
  }
  ByteVector right(Direction direction, Bytes source) const {
    return transformed(*session_for(*engine_for("openssl", spec_), spec_, key_), direction, 5,
                       source);
  }

  CipherSpec spec_{CipherMode::aes_xts, IvMode::plain64, 64, 512};
  const ByteVector key_ = random_bytes(64, 1);
  const ByteVector data_ = random_bytes(std::size_t{1} << 20, 2);
};

TEST_F(AfalgEngineTest, SectorBySectorTakesAnOperationEach) {
  AfalgOptions options;
  options.sector_by_sector = true;
  for (const AlgMode mode : {AlgMode::ecb, AlgMode::cbc, AlgMode::xts}) {
    const Rig rig = afalg(mode, options);
    const auto session = this->session(*rig.engine);
    const Bytes source = Bytes(data_).first(32768);
    EXPECT_EQ(transformed(*session, Direction::decrypt, 5, source),
              right(Direction::decrypt, source));
    EXPECT_EQ(rig.engine->driver_counters().operations, 64U);
  }
}

TEST_F(AfalgEngineTest, KeepsToWhatTheSocketTakes) {
  spec_.sector_size_bytes = 4096;
  for (const std::size_t max_bytes : {4096U, 12288U, 65535U}) {
    const Rig rig = afalg(AlgMode::ecb, {}, max_bytes);
    const auto session = this->session(*rig.engine);
    EXPECT_EQ(transformed(*session, Direction::decrypt, 5, data_),
              right(Direction::decrypt, data_));
    const std::size_t piece = max_bytes / 4096 * 4096;
    EXPECT_EQ(rig.engine->driver_counters().operations, (data_.size() + piece - 1) / piece);
    EXPECT_EQ(rig.engine->driver_counters().fallbacks, 0U);
  }
}

TEST_F(AfalgEngineTest, SeveralOperationsAreUnderWayAtOnce) {
  const Rig rig = afalg(AlgMode::ecb);
  const auto session = this->session(*rig.engine);
  EXPECT_EQ(transformed(*session, Direction::decrypt, 5, data_), right(Direction::decrypt, data_));
  EXPECT_GT(rig.kernel->most_at_once(), 1U);
  EXPECT_LE(rig.kernel->most_at_once(), AfalgOptions().lanes);
}

TEST_F(AfalgEngineTest, ThreadsShareTheLanesAndTheKey) {
  AfalgOptions options;
  options.lanes = 3;
  const Rig rig = afalg(AlgMode::ecb, options);
  const ByteVector expected = right(Direction::decrypt, data_);
  std::vector<std::unique_ptr<CipherSession>> sessions;
  for (int i = 0; i < 6; ++i) {
    sessions.push_back(session(*rig.engine));
  }
  EXPECT_EQ(rig.kernel->opened(), 1U);
  std::vector<std::thread> threads;
  threads.reserve(sessions.size());
  for (auto& own : sessions) {
    threads.emplace_back([this, &own, &expected] {
      for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(transformed(*own, Direction::decrypt, 5, data_), expected);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(rig.engine->driver_counters().bytes, 30 * data_.size());
  EXPECT_LE(rig.kernel->most_at_once(), 3U);
}

TEST_F(AfalgEngineTest, AnotherKeyIsAnotherTransform) {
  const Rig rig = afalg(AlgMode::ecb);
  const auto session = this->session(*rig.engine);
  const ByteVector other_key = random_bytes(64, 77);
  const auto other = session_for(*rig.engine, spec_, other_key);
  EXPECT_EQ(rig.kernel->opened(), 2U);
  EXPECT_EQ(transformed(*session, Direction::decrypt, 5, data_), right(Direction::decrypt, data_));
  EXPECT_EQ(transformed(*other, Direction::decrypt, 5, data_),
            transformed(*session_for(*engine_for("openssl", spec_), spec_, other_key),
                        Direction::decrypt, 5, data_));
}

TEST_F(AfalgEngineTest, NamesItsDriverAndSaysWhyNot) {
  const Rig hardware = afalg(AlgMode::cbc);
  EXPECT_EQ(hardware.engine->name(), "afalg");
  EXPECT_TRUE(contains(hardware.engine->description(), "cbc-aes-fake"));
  EXPECT_TRUE(hardware.engine->supports(spec_));
  hardware.kernel->forbid();
  EXPECT_TRUE(contains(hardware.engine->supports(spec_).error().message, "no AF_ALG sockets"));

  AfalgOptions options;
  options.driver = "cbc-aes-nosuch";
  const Rig absent = afalg(AlgMode::cbc, options);
  EXPECT_EQ(absent.engine->name(), "afalg:cbc-aes-nosuch");
  EXPECT_EQ(absent.engine->supports(spec_).error().code, Errc::unavailable);
  EXPECT_TRUE(contains(absent.engine->supports(spec_).error().message, "cbc-aes-nosuch"));

  const Rig xts = afalg(AlgMode::xts);
  const CipherSpec cbc{CipherMode::aes_cbc, IvMode::plain64, 32, 512};
  EXPECT_TRUE(contains(xts.engine->supports(cbc).error().message, "no hardware"));
  options.driver = "xts-aes-fake";
  EXPECT_TRUE(contains(afalg(AlgMode::xts, options).engine->supports(cbc).error().message,
                       "of which nothing can be made"));
}

TEST_F(AfalgEngineTest, AKeyThatIsRefusedIsASentence) {
  const Rig rig = afalg(AlgMode::ecb);
  rig.kernel->order_open(EINVAL);
  const auto session = rig.engine->new_session(spec_, secret(key_));
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Errc::unavailable);
  EXPECT_TRUE(contains(session.error().message, "256 bits"));
}

TEST_F(AfalgEngineTest, AKeyThatIsNeverSetIsASentenceToo) {
  AfalgOptions options;
  options.patience = milliseconds(100);
  const Rig rig = afalg(AlgMode::ecb, options);
  rig.kernel->order_open(-1);
  for (int i = 0; i < 2; ++i) {
    const auto session = rig.engine->new_session(spec_, secret(key_));
    ASSERT_FALSE(session);
    EXPECT_EQ(session.error().code, Errc::unavailable);
  }
}

std::vector<std::string> open_files(pid_t process) {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    names.push_back(std::filesystem::read_symlink(entry.path()).string());
  }
  return names;
}

TEST(AfalgHelperTest, HoldsNothingOfItsOwnerAndGoesWithIt) {
  const UniqueFd held(::dup(STDERR_FILENO));
  auto helper =
      AfalgHelper::start(std::make_shared<FakeAlgKernel>(AlgMode::cbc), 3, milliseconds(10'000));
  ASSERT_TRUE(helper);
  ASSERT_TRUE((*helper)->open("cbc-aes-fake", random_bytes(32, 1)));  // it runs by now
  if (::geteuid() == 0) {  // it is not dumpable, so its folder is root's
    const auto files = open_files((*helper)->process());
    EXPECT_EQ(std::count_if(files.begin(), files.end(),
                            [](const std::string& name) { return contains(name, "socket:"); }),
              4);
    EXPECT_EQ(std::count(files.begin(), files.end(), "/dev/null"), 3);
    EXPECT_EQ(files.size(), 7U);
  }
  const pid_t process = (*helper)->process();
  helper->reset();
  EXPECT_NE(::kill(process, 0), 0);
}

TEST(AfalgHelperTest, RefusesWorkThatDoesNotFit) {
  auto helper =
      AfalgHelper::start(std::make_shared<FakeAlgKernel>(AlgMode::cbc), 1, milliseconds(10'000));
  ASSERT_TRUE(helper);
  const auto transform = (*helper)->open("cbc-aes-fake", random_bytes(32, 1));
  ASSERT_TRUE(transform);
  const auto result = [&](AfalgHelper::Work work) {
    return (*helper)->begin(0, work, milliseconds(10'000)) ? (*helper)->finish(0) : -1;
  };
  const std::uint32_t number = transform->number;
  EXPECT_EQ(result({number, Direction::decrypt, true, 512, 512}), 0);
  EXPECT_EQ(result({number + 1, Direction::decrypt, true, 512, 512}), EINVAL);
  EXPECT_EQ(result({number, Direction::decrypt, true, 0, 0}), EINVAL);
  EXPECT_EQ(result({number, Direction::decrypt, true, 1024, 1000}), EINVAL);
  EXPECT_EQ(result({number, Direction::decrypt, true, 131072, 131072}), EINVAL);
  EXPECT_EQ(result({number, Direction::decrypt, true, 65536, 16}), EINVAL);
  (*helper)->close(number);
  EXPECT_EQ(result({number, Direction::decrypt, true, 512, 512}), EINVAL);
}

}  // namespace
}  // namespace cryptimg::test
