// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/passphrase.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "core/unique_fd.h"

namespace cryptimg {
namespace {

std::string text_of(const Result<Secret>& secret) {
  return secret ? std::string(secret->chars(), secret->size()) : "error: " + secret.error().message;
}

// Puts a descriptor in the place of stdin while it lives.
class StdinFrom {
 public:
  explicit StdinFrom(int fd) : saved_(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) {
    ::dup2(fd, STDIN_FILENO);
  }
  ~StdinFrom() { ::dup2(saved_.get(), STDIN_FILENO); }
  StdinFrom(const StdinFrom&) = delete;
  StdinFrom& operator=(const StdinFrom&) = delete;

 private:
  UniqueFd saved_;
};

// A pipe with `content` in it and nobody writing any more.
UniqueFd pipe_with(const std::string& content) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  EXPECT_EQ(::write(ends[1], content.data(), content.size()), static_cast<ssize_t>(content.size()));
  ::close(ends[1]);
  return UniqueFd(ends[0]);
}

TEST(Passphrase, FromAPipeUpToTheFirstNewline) {
  const UniqueFd pipe = pipe_with("first line\nsecond line\n");
  const StdinFrom from(pipe.get());
  EXPECT_FALSE(stdin_is_terminal());
  EXPECT_EQ(text_of(read_passphrase("prompt", true)), "first line");
  // What follows was not consumed.
  EXPECT_EQ(text_of(read_passphrase("prompt", false)), "second line");
  const auto none = read_passphrase("prompt", false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::invalid_argument);
}

TEST(Passphrase, WithoutNewlineOrEmpty) {
  {
    const UniqueFd pipe = pipe_with("no newline");
    const StdinFrom from(pipe.get());
    EXPECT_EQ(text_of(read_passphrase("", false)), "no newline");
  }
  const UniqueFd pipe = pipe_with("\n");
  const StdinFrom from(pipe.get());
  const auto empty = read_passphrase("", false);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->size(), 0U);
  EXPECT_NE(empty->chars(), nullptr);
}

TEST(Passphrase, AnyByteCounts) {
  const std::string bytes("\377\0\r\001 x", 6);
  const UniqueFd pipe = pipe_with(bytes + "\n");
  const StdinFrom from(pipe.get());
  EXPECT_EQ(text_of(read_passphrase("", false)), bytes);
}

TEST(Passphrase, LongerThanAGrowingBuffer) {
  const std::string longer(20000, 'x');
  const UniqueFd pipe = pipe_with(longer + "\nrest");
  const StdinFrom from(pipe.get());
  EXPECT_EQ(text_of(read_passphrase("", false)), longer);
}

class KeyFile : public testing::Test {
 protected:
  KeyFile() : path_(testing::TempDir() + "passphrase-test-" + std::to_string(::getpid())) {}
  ~KeyFile() override { ::unlink(path_.c_str()); }
  void make(const std::string& content, mode_t mode) {
    std::ofstream(path_, std::ios::binary) << content;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  std::string path_;
  std::string warning_;
};

TEST_F(KeyFile, IsReadWhole) {
  const std::string content("one\ntwo\n\0three\n", 15);
  make(content, 0600);
  EXPECT_EQ(text_of(read_key_file(path_, warning_)), content);
  EXPECT_EQ(warning_, "");
  make("", 0600);
  const auto empty = read_key_file(path_, warning_);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->size(), 0U);
}

TEST_F(KeyFile, WarnsWhereOthersCanRead) {
  make("x", 0640);
  EXPECT_TRUE(read_key_file(path_, warning_));
  EXPECT_NE(warning_.find(path_), std::string::npos);
}

TEST_F(KeyFile, TheLimitIsEightMebibytes) {
  make(std::string(8 << 20, 'k'), 0600);
  const auto largest = read_key_file(path_, warning_);
  ASSERT_TRUE(largest);
  EXPECT_EQ(largest->size(), std::size_t{8} << 20);
  make(std::string((8 << 20) + 1, 'k'), 0600);
  const auto larger = read_key_file(path_, warning_);
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code, Errc::invalid_argument);
  // Not endless either.
  EXPECT_FALSE(read_key_file("/dev/zero", warning_));
}

TEST_F(KeyFile, FromStdinWithItsNewline) {
  {
    const UniqueFd pipe = pipe_with("one\ntwo\n");
    const StdinFrom from(pipe.get());
    EXPECT_EQ(text_of(read_key_file("-", warning_)), "one\ntwo\n");
  }
  const UniqueFd pipe = pipe_with("");
  const StdinFrom from(pipe.get());
  EXPECT_FALSE(read_key_file("-", warning_));
}

TEST_F(KeyFile, AbsentOrADirectory) {
  const auto absent = read_key_file(path_ + "-absent", warning_);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Errc::not_found);
  const auto folder = read_key_file("/", warning_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Errc::io);
}

// A pseudo-terminal as stdin, and someone who types at its other end.
class Terminal : public testing::Test {
 protected:
  void SetUp() override {
    int master = -1;
    int slave = -1;
    ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    master_.reset(master);
    slave_.reset(slave);
  }
  [[nodiscard]] bool echoes() const {
    termios settings{};
    ::tcgetattr(slave_.get(), &settings);
    return (settings.c_lflag & ECHO) != 0;
  }
  // Waits for each prompt, checks that echo is off, and answers it. All that was seen is kept.
  std::thread typist(std::vector<std::string> answers) {
    return std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        const std::size_t before = seen_.size();
        while (seen_.find(": ", before) == std::string::npos) {
          std::array<char, 256> piece{};
          const ssize_t got = ::read(master_.get(), piece.data(), piece.size());
          ASSERT_GT(got, 0);
          seen_.append(piece.data(), static_cast<std::size_t>(got));
        }
        echoed_ = echoed_ || echoes();
        ASSERT_EQ(::write(master_.get(), answer.data(), answer.size()),
                  static_cast<ssize_t>(answer.size()));
      }
    });
  }
  UniqueFd master_;
  UniqueFd slave_;
  std::string seen_;
  bool echoed_ = false;
};

TEST_F(Terminal, AsksTwiceWithoutEcho) {
  const StdinFrom from(slave_.get());
  EXPECT_TRUE(stdin_is_terminal());
  std::thread types = typist({"secret\n", "secret\n"});
  EXPECT_EQ(text_of(read_passphrase("Enter passphrase: ", true)), "secret");
  types.join();
  EXPECT_FALSE(echoed_);
  EXPECT_TRUE(echoes());
  EXPECT_NE(seen_.find("Enter passphrase: "), std::string::npos);
  EXPECT_NE(seen_.find("Verify passphrase: "), std::string::npos);
  EXPECT_EQ(seen_.find("secret"), std::string::npos);
}

TEST_F(Terminal, DifferentEntriesAreRefused) {
  const StdinFrom from(slave_.get());
  std::thread types = typist({"secret\n", "secrets\n"});
  const auto passphrase = read_passphrase("Enter passphrase: ", true);
  types.join();
  ASSERT_FALSE(passphrase);
  EXPECT_EQ(passphrase.error().code, Errc::invalid_argument);
  EXPECT_TRUE(echoes());
}

TEST_F(Terminal, AtMost512Bytes) {
  const StdinFrom from(slave_.get());
  std::thread types = typist({std::string(512, 'x') + "\n"});
  EXPECT_EQ(text_of(read_passphrase("Enter: ", false)), std::string(512, 'x'));
  types.join();
  types = typist({std::string(513, 'x') + "\n"});
  EXPECT_FALSE(read_passphrase("Enter: ", false));
  types.join();
  EXPECT_TRUE(echoes());
}

TEST_F(Terminal, ASignalPutsEchoBackAndEndsTheProgram) {
  const StdinFrom from(slave_.get());
  const pid_t child = ::fork();
  if (child == 0) {
    [[maybe_unused]] const auto ignored = read_passphrase("Enter: ", false);
    ::_exit(0);
  }
  std::array<char, 256> piece{};
  while (seen_.find("Enter: ") == std::string::npos) {
    const ssize_t got = ::read(master_.get(), piece.data(), piece.size());
    ASSERT_GT(got, 0);
    seen_.append(piece.data(), static_cast<std::size_t>(got));
  }
  EXPECT_FALSE(echoes());
  ::kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  EXPECT_TRUE(echoes());
}

}  // namespace
}  // namespace cryptimg
