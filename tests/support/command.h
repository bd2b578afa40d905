// SPDX-License-Identifier: GPL-3.0-or-later
//
// Running another program from a test, to have it judge what we made (cryptsetup) or to get in our
// way (losetup, mount). Header only, any thread.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/unique_fd.h"

namespace cryptimg::testing {

struct CommandResult {
  int exit_code = -1;  // -1: could not be started, or ended by a signal
  std::string output;  // stdout and stderr

  [[nodiscard]] bool ok() const { return exit_code == 0; }
};

// Runs argv[0] found in PATH, for at most a minute (timeout(1)), with `input` as its stdin.
inline CommandResult run_command(std::vector<std::string> argv, std::string_view input = {}) {
  argv.insert(argv.begin(), {"timeout", "-k", "5", "60"});
  // Memory files instead of pipes: nobody can block on a full one.
  const UniqueFd in(::memfd_create("stdin", MFD_CLOEXEC));
  const UniqueFd out(::memfd_create("stdout", MFD_CLOEXEC));
  CommandResult result;
  if (!in.valid() || !out.valid() ||
      ::write(in.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()) ||
      ::lseek(in.get(), 0, SEEK_SET) != 0) {
    return result;
  }
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (std::string& argument : argv) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(in.get(), STDIN_FILENO);
    ::dup2(out.get(), STDOUT_FILENO);
    ::dup2(out.get(), STDERR_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) {
    return result;
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::array<char, 4096> buffer;
  ::lseek(out.get(), 0, SEEK_SET);
  for (ssize_t got = 0; (got = ::read(out.get(), buffer.data(), buffer.size())) > 0;) {
    result.output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return result;
}

}  // namespace cryptimg::testing
