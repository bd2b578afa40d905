// SPDX-License-Identifier: GPL-3.0-or-later
//
// What tests of containers share: a directory, cheap containers made by cryptsetup, and
// cryptsetup's opinion of a container. The KDF is the cheapest that LUKS allows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/container.h"
#include "core/secret.h"
#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

namespace cryptimg::testing {

inline constexpr std::string_view kPassphrase = "correct horse";

inline Secret secret_of(std::string_view text) {
  return Secret::copy_of(std::as_bytes(std::span(text))).value();
}

// Whether the result failed with `code` in a sentence that has `part`.
template <typename T>
::testing::AssertionResult fails_with(const Result<T>& result, Errc code, const std::string& part) {
  if (result) {
    return ::testing::AssertionFailure() << "it succeeded";
  }
  if (result.error().code != code || result.error().message.find(part) == std::string::npos) {
    return ::testing::AssertionFailure() << "code " << static_cast<int>(result.error().code)
                                         << ", \"" << result.error().message << "\"";
  }
  return ::testing::AssertionSuccess();
}

class ContainerFixture : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name = "c.img") const { return dir_ / name; }

  // luksFormat with these extra arguments on a file of `size_bytes`.
  void format(const std::vector<std::string>& arguments = {}, const std::string& type = "luks2",
              std::uint64_t size_bytes = std::uint64_t{6} << 20) {
    write_file(path(), "");
    std::filesystem::resize_file(path(), size_bytes);
    std::vector<std::string> command = {
        "cryptsetup", "-q",      "luksFormat", "--type",
        type,         "--pbkdf", "pbkdf2",     "--pbkdf-force-iterations",
        "1000"};
    const bool detached =
        std::find(arguments.begin(), arguments.end(), "--header") != arguments.end();
    if (type == "luks2" && !detached) {
      command.insert(command.end(), {"--luks2-keyslots-size", "1m", "--offset", "4096"});
    }
    command.insert(command.end(), arguments.begin(), arguments.end());
    command.insert(command.end(), {"--key-file", "-", path()});
    const CommandResult result = run_command(command, kPassphrase);
    ASSERT_TRUE(result.ok()) << result.output;
  }

  [[nodiscard]] Result<Container> open(bool read_only = false, const std::string& name = "c.img",
                                       std::optional<std::string> header = {}) const {
    return Container::open({path(name), std::move(header), read_only});
  }

  // The volume key as cryptsetup finds it; `header_arguments` may name a detached header.
  [[nodiscard]] std::string cryptsetup_key(const std::string& file,
                                           const std::vector<std::string>& header_arguments = {}) {
    const std::string key_file = path("volume.key");
    std::filesystem::remove(key_file);
    std::vector<std::string> command = {
        "cryptsetup",        "-q",     "luksDump",   "--dump-volume-key",
        "--volume-key-file", key_file, "--key-file", "-"};
    command.insert(command.end(), header_arguments.begin(), header_arguments.end());
    command.push_back(file);
    const CommandResult result = run_command(command, kPassphrase);
    EXPECT_TRUE(result.ok()) << result.output;
    return read_file(key_file);
  }

  // The volume key as we find it, or an empty string and a failed test.
  [[nodiscard]] static std::string our_key(Result<Container>& container,
                                           std::string_view passphrase = kPassphrase) {
    EXPECT_TRUE(container) << container.error().message;
    if (!container) {
      return {};
    }
    const Result<Secret> key = container->unlock(secret_of(passphrase), std::nullopt);
    EXPECT_TRUE(key) << key.error().message;
    return key ? std::string(key->chars(), key->size()) : std::string();
  }

  TempDir dir_;
};

}  // namespace cryptimg::testing
