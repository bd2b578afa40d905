// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/passphrase.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "core/unique_fd.h"

namespace cryptimg {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{8} << 20;  // cryptsetup's limit for key files
constexpr std::size_t kMaxTerminalBytes = 512;           // and for what is typed
constexpr std::size_t kFirstBytes = 4096;

ssize_t read_retrying(int fd, std::byte* target, std::size_t length) {
  ssize_t got = 0;
  do {
    got = ::read(fd, target, length);
  } while (got < 0 && errno == EINTR);
  return got;
}

// A Secret that grows: doubling keeps locked memory small where the input is, as it nearly always
// is. What is outgrown is wiped by its own destructor.
class GrowingSecret {
 public:
  Status reserve(std::size_t bytes) {
    if (bytes <= secret_.size()) {
      return {};
    }
    CRYPTIMG_ASSIGN_OR_RETURN(Secret larger, Secret::allocate(bytes));
    std::copy_n(secret_.bytes().begin(), used_, larger.mutable_bytes().begin());
    secret_ = std::move(larger);
    return {};
  }
  // Room for at least one byte more.
  Result<MutableBytes> room() {
    if (used_ == secret_.size()) {
      CRYPTIMG_RETURN_IF_ERROR(reserve(std::max(kFirstBytes, secret_.size() * 2)));
    }
    return secret_.mutable_bytes().subspan(used_);
  }
  void add(std::size_t bytes) { used_ += bytes; }
  [[nodiscard]] std::size_t size() const { return used_; }

  // The bytes added, in an allocation even where there are none: libcryptsetup takes a null
  // pointer for "no passphrase given", which an empty one is not.
  Result<Secret> take() {
    CRYPTIMG_RETURN_IF_ERROR(reserve(1));
    secret_.shrink(used_);
    return std::move(secret_);
  }

 private:
  Secret secret_;
  std::size_t used_ = 0;
};

Result<Secret> read_all(int fd, const struct stat& status, const std::string& name,
                        bool may_be_empty) {
  GrowingSecret content;
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    CRYPTIMG_RETURN_IF_ERROR(content.reserve(std::min(size, kMaxBytes) + 1));
  }
  for (;;) {
    CRYPTIMG_ASSIGN_OR_RETURN(const MutableBytes room, content.room());
    const ssize_t got = read_retrying(fd, room.data(), room.size());
    if (got < 0) {
      return fail_errno(errno, "cannot read the key file " + name);
    }
    if (got == 0) {
      break;
    }
    content.add(static_cast<std::size_t>(got));
    if (content.size() > kMaxBytes) {
      return fail(Errc::invalid_argument, "the key file " + name + " is larger than 8 MiB");
    }
  }
  if (content.size() == 0 && !may_be_empty) {
    return fail(Errc::invalid_argument, "there is nothing to read in the key file " + name);
  }
  return content.take();
}

// One byte at a time: what follows the newline belongs to whoever reads the pipe next.
Result<Secret> read_line(int fd, std::size_t max_bytes) {
  GrowingSecret line;
  for (;;) {
    CRYPTIMG_ASSIGN_OR_RETURN(const MutableBytes room, line.room());
    const ssize_t got = read_retrying(fd, room.data(), 1);
    if (got < 0) {
      return fail_errno(errno, "cannot read the passphrase from standard input");
    }
    if (got == 0 && line.size() == 0) {
      return fail(Errc::invalid_argument, "no passphrase on standard input");
    }
    if (got == 0 || room[0] == std::byte{'\n'}) {
      return line.take();
    }
    line.add(1);
    if (line.size() > max_bytes) {
      return fail(Errc::invalid_argument,
                  "the passphrase is longer than " + std::to_string(max_bytes) + " bytes");
    }
  }
}

// What the signal handler needs; set before the handlers are installed.
termios saved_terminal;

void restore_and_die(int signal_number) {
  const int saved_errno = errno;
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_terminal);
  errno = saved_errno;
  ::raise(signal_number);  // SA_RESETHAND: the default action follows when this handler returns
}

// Echo is off while this lives; a signal that ends the program puts it back first.
class QuietTerminal {
 public:
  QuietTerminal() = default;
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

  Status begin() {
    if (::tcgetattr(STDIN_FILENO, &saved_terminal) != 0) {
      return fail_errno(errno, "cannot read the terminal's settings");
    }
    struct sigaction action {};
    action.sa_handler = restore_and_die;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &previous_[i]);
      if (previous_[i].sa_handler != SIG_IGN) {
        ::sigaction(kSignals[i], &action, nullptr);
      }
    }
    active_ = true;
    termios quiet = saved_terminal;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (::tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) != 0) {
      return fail_errno(errno, "cannot switch the terminal's echo off");
    }
    return {};
  }

  ~QuietTerminal() {
    if (!active_) {
      return;
    }
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved_terminal);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], &previous_[i], nullptr);
    }
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> previous_{};
  bool active_ = false;
};

void say(const std::string& text) {
  // A terminal that stdin may only read from leaves stderr for the prompt.
  if (::write(STDIN_FILENO, text.data(), text.size()) < 0) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  }
}

Result<Secret> ask(const std::string& prompt) {
  QuietTerminal quiet;
  CRYPTIMG_RETURN_IF_ERROR(quiet.begin());
  say(prompt);
  auto passphrase = read_line(STDIN_FILENO, kMaxTerminalBytes);
  say("\n");
  return passphrase;
}

}  // namespace

Result<Secret> read_key_file(const std::string& path, std::string& warning) {
  warning.clear();
  UniqueFd file;
  int fd = STDIN_FILENO;
  if (path != "-") {
    file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!file.valid()) {
      return fail_errno(errno, "cannot open the key file " + path);
    }
    fd = file.get();
  }
  const std::string name = path == "-" ? "on standard input" : path;
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return fail_errno(errno, "cannot examine the key file " + name);
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(Errc::io, "the key file " + name + " is a directory", EISDIR);
  }
  if (path != "-" && S_ISREG(status.st_mode) && (status.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    warning = "the key file " + path + " can be read by others than its owner; chmod it to 0600";
  }
  // As cryptsetup has it: an empty file is an empty passphrase, an empty stdin is none.
  return read_all(fd, status, name, path != "-" && S_ISREG(status.st_mode));
}

Result<Secret> read_passphrase(const std::string& prompt, bool verify) {
  if (!stdin_is_terminal()) {
    return read_line(STDIN_FILENO, kMaxBytes);
  }
  CRYPTIMG_ASSIGN_OR_RETURN(Secret first, ask(prompt));
  if (verify) {
    CRYPTIMG_ASSIGN_OR_RETURN(const Secret second, ask("Verify passphrase: "));
    if (!std::equal(first.bytes().begin(), first.bytes().end(), second.bytes().begin(),
                    second.bytes().end())) {
      return fail(Errc::invalid_argument, "the two passphrases differ");
    }
  }
  return first;
}

bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

}  // namespace cryptimg
