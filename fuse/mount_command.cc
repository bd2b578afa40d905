// SPDX-License-Identifier: GPL-3.0-or-later
//
// run_mount: checks what is cheap to check, forks the daemon before any secret exists, and waits
// until it serves or has said why not.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/text.h"
#include "core/unique_fd.h"
#include "fuse/commands.h"
#include "fuse/daemon.h"
#include "fuse/mountpoint.h"
#include "fuse/sandbox.h"

namespace cryptimg {
namespace {

// What the daemon sends to the command that started it, once.
struct Outcome {
  ExitCode code = ExitCode::ok;
  std::uint32_t sector_size_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Outcome>);

// The mount would hide the key from whoever mounts next.
Status check_not_key_file(const MountOptions& options, const std::string& mountpoint) {
  struct stat key {};
  struct stat place {};
  const bool from_stdin = options.key_file.value_or("-") == "-";
  if (!from_stdin && ::stat(options.key_file->c_str(), &key) == 0 &&
      ::stat(mountpoint.c_str(), &place) == 0 && key.st_dev == place.st_dev &&
      key.st_ino == place.st_ino) {
    return fail(Errc::invalid_argument, "the key file cannot be the mount point");
  }
  return {};
}

Result<DaemonPlan> make_plan(const MountOptions& options) {
  DaemonPlan plan;
  plan.options = options;
  plan.options.sandbox = options.sandbox && has_sandbox();
  CRYPTIMG_ASSIGN_OR_RETURN(plan.container, absolute_path(options.container));
  CRYPTIMG_ASSIGN_OR_RETURN(const Mountpoint mountpoint,
                            prepare_mountpoint(options.mountpoint, plan.container));
  CRYPTIMG_RETURN_IF_ERROR(check_not_key_file(options, mountpoint.path));
  plan.mountpoint = mountpoint.path;
  plan.mountpoint_is_file = mountpoint.is_file;
  return plan;
}

// Whether fuse.conf(5) lets users have allow_other and allow_root.
bool users_may_allow_others() {
  std::ifstream file("/etc/fuse.conf");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("user_allow_other", 0) == 0) {
      return true;
    }
  }
  return false;
}

// One shell word. What would not be fit for a terminal is written in octal, as $'...' takes it.
std::string quoted(const std::string& text) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-=:,@%";
  if (text.find_first_not_of(kPlain) == std::string::npos) {
    return text;
  }
  const bool is_printable = printable(text) == text;
  std::string result = is_printable ? "'" : "$'";
  for (const char c : text) {
    const auto value = static_cast<unsigned char>(c);
    if (is_printable) {
      result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    } else if (value < 0x20 || value >= 0x7F || c == '\'' || c == '\\') {
      result += {'\\', static_cast<char>('0' + value / 64), static_cast<char>('0' + value / 8 % 8),
                 static_cast<char>('0' + value % 8)};
    } else {
      result += c;
    }
  }
  return result + "'";
}

void print_hint(const DaemonPlan& plan, std::uint32_t sector_size_bytes) {
  const std::string image = plan.mountpoint_is_file ? plan.mountpoint : plan.mountpoint + "/image";
  const MountOptions& options = plan.options;
  std::printf("%s is ready; to attach it as a block device:\n", printable(image).c_str());
  std::printf("  losetup --find --show --direct-io=on --sector-size %u %s%s\n", sector_size_bytes,
              options.read_only ? "--read-only " : "", quoted(image).c_str());
  if (::geteuid() != 0 && !options.allow_other && !options.allow_root) {
    std::printf(
        "root cannot enter this mount, so it cannot attach it: mount with -o allow_root%s\n",
        users_may_allow_others() ? ""
                                 : ", after adding the line user_allow_other to /etc/fuse.conf");
  }
  std::fflush(stdout);
}

// The descriptors above the standard ones, `kept` excepted.
std::vector<int> other_descriptors(int kept) {
  std::vector<int> descriptors;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    const auto fd = static_cast<int>(std::strtol(entry->path().filename().c_str(), nullptr, 10));
    if (fd > STDERR_FILENO && fd != kept) {
      descriptors.push_back(fd);
    }
  }
  return descriptors;
}

// Leaves the terminal, the folder, the shell's job, and what the caller had open: a pipe would
// otherwise never come to its end.
Status detach_from_caller(const std::vector<int>& inherited) {
  if (::prctl(PR_SET_PDEATHSIG, 0) != 0) {
    return fail_errno(errno, "cannot let the daemon outlive its command");
  }
  ::setsid();
  [[maybe_unused]] const int moved = ::chdir("/");
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null.get(), fd);
  }
  for (const int fd : inherited) {
    ::close(fd);
  }
  return {};
}

void send_outcome(int pipe, const Outcome& outcome) {
  // The command may have been killed meanwhile; the mount is then as good without it.
  [[maybe_unused]] const ssize_t sent = ::write(pipe, &outcome, sizeof outcome);
}

// The child's side of the fork.
ExitCode run_behind(const DaemonPlan& plan, UniqueFd pipe, pid_t parent) {
  // Until it serves it goes with the command that started it.
  if (::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) {
    const ExitCode code =
        report(fail_errno(errno, "cannot let the daemon end with its command").value());
    send_outcome(pipe.get(), {code, 0});
    return code;
  }
  if (::getppid() != parent) {
    return ExitCode::device;
  }
  // Until then they may be needed: --key-file /dev/fd/63.
  std::vector<int> inherited = other_descriptors(pipe.get());
  // The listing's own descriptor is closed by now.
  std::erase_if(inherited, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });
  DaemonHooks hooks;
  hooks.on_serving = [&](std::uint32_t /*sector_size_bytes*/) {
    return detach_from_caller(inherited);
  };
  hooks.on_ready = [&](std::uint32_t sector_size_bytes) {
    send_outcome(pipe.get(), {ExitCode::ok, sector_size_bytes});
    pipe.reset();
  };
  ExitCode code = ExitCode::memory;
  try {
    code = run_daemon(plan, hooks);
  } catch (const std::bad_alloc&) {
    // Said here, since the caller waits for a word, not for the end.
    report({Errc::out_of_memory, 0, "out of memory"});
  }
  if (pipe.valid()) {
    send_outcome(pipe.get(), {code, 0});
  }
  return code;
}

ExitCode wait_for_outcome(const DaemonPlan& plan, int pipe, pid_t daemon) {
  Outcome outcome;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &outcome, sizeof outcome);
  } while (got < 0 && errno == EINTR);
  const bool has_outcome = got == static_cast<ssize_t>(sizeof outcome);
  if (has_outcome && outcome.code == ExitCode::ok) {
    print_hint(plan, outcome.sector_size_bytes);
    return ExitCode::ok;
  }
  int status = 0;
  while (::waitpid(daemon, &status, 0) < 0 && errno == EINTR) {
  }
  if (has_outcome) {
    return outcome.code;
  }
  return report({Errc::io, 0,
                 WIFSIGNALED(status) ? "the daemon was ended by signal " +
                                           std::to_string(WTERMSIG(status)) + " before it served"
                                     : std::string("the daemon ended before it served")});
}

}  // namespace

ExitCode run_mount(const MountOptions& options) {
  const Result<DaemonPlan> plan = make_plan(options);
  if (!plan) {
    return report(plan.error());
  }
  if (options.foreground) {
    DaemonHooks hooks;
    hooks.on_serving = [&](std::uint32_t sector_size_bytes) -> Status {
      print_hint(*plan, sector_size_bytes);
      return {};
    };
    hooks.on_ready = [](std::uint32_t /*sector_size_bytes*/) {};
    return run_daemon(*plan, hooks);
  }

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return report(fail_errno(errno, "cannot make a pipe to the daemon").value());
  }
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  std::fflush(nullptr);
  const pid_t self = ::getpid();
  const pid_t daemon = ::fork();
  if (daemon < 0) {
    return report(fail_errno(errno, "cannot start the daemon").value());
  }
  if (daemon == 0) {
    reader.reset();
    return run_behind(*plan, std::move(writer), self);
  }
  writer.reset();
  return wait_for_outcome(*plan, reader.get(), daemon);
}

}  // namespace cryptimg
