// SPDX-License-Identifier: GPL-3.0-or-later
//
// The keys of docs/json.md are the keys that are printed.
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/container.h"
#include "core/encrypted_image.h"
#include "core/text.h"
#include "engines/engines.h"
#include "fuse/commands.h"
#include "fuse/daemon_status.h"

namespace cryptimg {
namespace {

using Json = nlohmann::json;
using Keys = std::set<std::string>;

// The first column of the table under each "## heading".
std::map<std::string, Keys> documented() {
  std::ifstream file(CRYPTIMG_SOURCE_DIR "/docs/json.md");
  EXPECT_TRUE(file) << "docs/json.md is missing";
  std::map<std::string, Keys> tables;
  std::string heading;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("## ", 0) == 0) {
      heading = line.substr(3);
    } else if (line.rfind("| `", 0) == 0) {
      tables[heading].insert(line.substr(3, line.find('`', 3) - 3));
    }
  }
  return tables;
}

Keys keys(const Json& object) {
  Keys names;
  for (const auto& [name, value] : object.items()) {
    names.insert(name);
  }
  return names;
}

Json printed(const std::function<ExitCode()>& run) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run(), ExitCode::ok);
  return Json::parse(testing::internal::GetCapturedStdout());
}

TEST(JsonKeys, Engines) {
  const Json engines = printed([] { return run_engines(true); }).at("engines");
  ASSERT_TRUE(engines.is_array() && !engines.empty());
  for (const Json& engine : engines) {
    EXPECT_EQ(keys(engine), documented()["engines"]);
    EXPECT_EQ(engine["rates"].empty(), !engine["usable"].get<bool>());
    for (const Json& rate : engine["rates"]) {
      EXPECT_EQ(keys(rate), documented()["engines: rates"]);
      EXPECT_GT(rate["read_rate"], 0);
    }
    EXPECT_TRUE(!engine["chosen"].get<bool>() || engine["reads_from"] == 4096);
  }
}

TEST(JsonKeys, Status) {
  const Json mounts = printed([] { return run_status(std::nullopt, true); }).at("mounts");
  ASSERT_TRUE(mounts.is_array());
  Keys known = documented()["status"];
  known.merge(documented()["status: what the daemon adds"]);
  for (const Json& mount : mounts) {
    for (const std::string& key : keys(mount)) {
      EXPECT_EQ(known.count(key), 1U) << key;
    }
  }
}

// A small container, made once a test.
class JsonKeysOfAContainer : public testing::Test {
 protected:
  void SetUp() override {
    CreateOptions options;
    options.container = path_;
    options.size_bytes = 4096;
    options.pbkdf = "pbkdf2";
    options.pbkdf_force_iterations = 1000;
    std::vector<std::string> warnings;
    passphrase_ = Secret::copy_of(Bytes(reinterpret_cast<const std::byte*>("p"), 1)).value();
    const Status created = create_container(options, passphrase_, warnings);
    ASSERT_TRUE(created) << created.error().message;
  }
  ~JsonKeysOfAContainer() override { ::unlink(path_.c_str()); }

  Secret passphrase_;
  const std::string path_ = testing::TempDir() + "json-test-" + std::to_string(::getpid());
};

TEST_F(JsonKeysOfAContainer, StatusOfItsDaemon) {
  auto container = Container::open({path_, std::nullopt, false});
  ASSERT_TRUE(container) << container.error().message;
  const CipherSpec spec = container->spec();
  const auto engine = make_engine("auto", spec);
  const auto key = container->unlock(passphrase_, std::nullopt);
  ASSERT_TRUE(engine && key);
  ImageOptions options;
  options.size_bytes = 4096;
  const auto image =
      EncryptedImage::create(*container->take_device(), **engine, spec, *key, options, 1);
  ASSERT_TRUE(image) << image.error().message;
  DaemonStatus daemon(**image, {path_, "/mnt", "openssl", "aes-xts-plain64", 1, "uuid", ""});
  const Json status = Json::parse(daemon.answer(R"({"command":"status"})").line);
  Keys known = documented()["status: what the daemon adds"];
  EXPECT_EQ(known.erase("flush_message"), 1U);  // only after a failure
  EXPECT_EQ(known.erase("header"), 1U);         // only where it is a file of its own
  Keys printed_keys = keys(status);
  const Keys keys_of_both = documented()["status"];
  for (const std::string& key_of_both : keys_of_both) {
    printed_keys.erase(key_of_both);
  }
  EXPECT_EQ(printed_keys, known);
  EXPECT_EQ(keys(status["counters"]), documented()["status: counters"]);
  daemon.detach();
}

TEST_F(JsonKeysOfAContainer, Info) {
  const Json info = printed([&] { return run_info(path_, std::nullopt, true); });
  EXPECT_EQ(keys(info), documented()["info"]);
  EXPECT_EQ(info["image_size"], 4096);
  EXPECT_EQ(info["mountable"], true);
  ASSERT_EQ(info["keyslots"].size(), 1U);
  EXPECT_EQ(keys(info["keyslots"][0]), documented()["info: keyslots"]);
}

TEST(JsonKeys, ErrorsAreOneObject) {
  testing::internal::CaptureStderr();
  const ExitCode code =
      report({Errc::busy, 0, "a \"quoted\"\n\x1b[31m \xff \xc2\x9b word \xe2\x82\xac"}, true);
  const Json object = Json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(code, ExitCode::exists);
  EXPECT_EQ(keys(object), documented()["Errors"]);
  EXPECT_EQ(object["exit_code"], 5);
  EXPECT_EQ(object["error"], R"(a "quoted"\x0a\x1b[31m \xff \xc2\x9b word )"
                             "\xe2\x82\xac");
}

TEST(Report, OneSentenceWithAStop) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(report({Errc::wrong_key, 0, "no keyslot opens"}), ExitCode::passphrase);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cryptimg: no keyslot opens.\n");
  testing::internal::CaptureStderr();
  EXPECT_EQ(report({Errc::io, EIO, ""}), ExitCode::device);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "cryptimg: Input/output error.\n");
}

TEST(Report, EveryErrorHasItsExitCode) {
  const auto code = [](Errc errc) { return static_cast<int>(exit_code({errc, 0, ""})); };
  EXPECT_EQ(code(Errc::invalid_argument), 1);
  EXPECT_EQ(code(Errc::wrong_key), 2);
  EXPECT_EQ(code(Errc::out_of_memory), 3);
  EXPECT_EQ(code(Errc::exists), 5);
  EXPECT_EQ(code(Errc::busy), 5);
  for (const Errc errc : {Errc::io, Errc::no_space, Errc::corrupt, Errc::unsupported,
                          Errc::unavailable, Errc::out_of_range, Errc::not_found, Errc::permission,
                          Errc::read_only, Errc::shutting_down}) {
    EXPECT_EQ(code(errc), 4);
  }
}

TEST(Printable, OnlyWholeValidText) {
  EXPECT_EQ(printable("plain \xc3\xa9 \xf0\x9f\x98\x80"), "plain \xc3\xa9 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\x7f\t"), "\\x7f\\x09");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\xaf \xed\xa0\x80"), "\\xc0\\xaf \\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
}

}  // namespace
}  // namespace cryptimg
