// SPDX-License-Identifier: GPL-3.0-or-later
//
// unmount() of mount_table.h. Also used by the janitor process after fork: it keeps no state.
#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/unique_fd.h"
#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

Error busy_error(const std::string& mountpoint) {
  return {Errc::busy, EBUSY, mountpoint + " is busy"};
}

Error not_mounted_error(const std::string& mountpoint) {
  return {Errc::not_found, EINVAL, mountpoint + " is not mounted"};
}

// Runs the helper with its messages going into `output`; returns its wait status.
Result<int> run_fusermount(const std::string& mountpoint, bool lazy, std::string& output) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail_errno(errno, "cannot make a pipe to fusermount3");
  }
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);

  std::vector<std::string> words = {"fusermount3", "-u"};
  if (lazy) {
    words.emplace_back("-z");
  }
  words.insert(words.end(), {"--", mountpoint});
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDERR_FILENO);
  pid_t child = -1;
  const int error =
      ::posix_spawnp(&child, "fusermount3", &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writer.reset();
  if (error != 0) {
    return fail(Errc::unavailable,
                "cannot unmount " + mountpoint + ": fusermount3 cannot be run; install fuse3",
                error);
  }

  std::array<char, 512> piece;
  for (;;) {
    const ssize_t got = ::read(reader.get(), piece.data(), piece.size());
    if (got == 0 || (got < 0 && errno != EINTR)) {
      break;
    }
    if (got > 0) {
      output.append(piece.data(), static_cast<std::size_t>(got));
    }
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) {
      return fail_errno(errno, "cannot wait for fusermount3");
    }
  }
  return status;
}

}  // namespace

Status unmount(const std::string& mountpoint, bool lazy) {
  if (::umount2(mountpoint.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) {
    return {};
  }
  if (errno == EBUSY) {
    return tl::unexpected(busy_error(mountpoint));
  }
  if (errno == EINVAL || errno == ENOENT) {
    return tl::unexpected(not_mounted_error(mountpoint));
  }
  if (errno != EPERM) {
    return fail_errno(errno, "cannot unmount " + mountpoint);
  }

  std::string output;
  CRYPTIMG_ASSIGN_OR_RETURN(const int status, run_fusermount(mountpoint, lazy, output));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return {};
  }
  if (output.find("busy") != std::string::npos) {
    return tl::unexpected(busy_error(mountpoint));
  }
  if (output.find("not found in") != std::string::npos) {
    return tl::unexpected(not_mounted_error(mountpoint));
  }
  while (!output.empty() && output.back() == '\n') {
    output.pop_back();
  }
  return fail(Errc::permission, "cannot unmount " + mountpoint + ": " +
                                    (output.empty() ? "fusermount3 failed" : output));
}

}  // namespace cryptimg
