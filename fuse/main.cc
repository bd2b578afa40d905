// SPDX-License-Identifier: GPL-3.0-or-later
//
// The program: parses the command line and runs the command it names.
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <variant>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fuse/cli.h"
#include "fuse/commands.h"

namespace cryptimg {
namespace {

// A closed standard descriptor would be reused by the first file opened, and messages for people
// then land in a container.
bool fill_standard_descriptors() {
  int fd = -1;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  return fd >= 0 && ::close(fd) == 0;
}

// Whether this process may more than who started it: nothing here was written to keep the two
// apart. AT_SECURE alone is not it: a security module may set it for a mere change of domain.
bool has_borrowed_rights() {
  if (::getuid() != ::geteuid() || ::getgid() != ::getegid()) {
    return true;
  }
  return ::getuid() != 0 && ::getauxval(AT_SECURE) != 0 &&
         ::getxattr("/proc/self/exe", "security.capability", nullptr, 0) > 0;
}

ExitCode show(const ShowText& show) {
  std::fputs(show.text.c_str(), stdout);
  return ExitCode::ok;
}

ExitCode run(const Command& command) {
  return std::visit(
      [](const auto& chosen) {
        using Chosen = std::decay_t<decltype(chosen)>;
        if constexpr (std::is_same_v<Chosen, ShowText>) {
          return show(chosen);
        } else if constexpr (std::is_same_v<Chosen, CreateCommandOptions>) {
          return run_create(chosen);
        } else if constexpr (std::is_same_v<Chosen, MountOptions>) {
          return run_mount(chosen);
        } else if constexpr (std::is_same_v<Chosen, UmountOptions>) {
          return run_umount(chosen);
        } else if constexpr (std::is_same_v<Chosen, LockOptions>) {
          return run_lock(chosen);
        } else if constexpr (std::is_same_v<Chosen, UnlockOptions>) {
          return run_unlock(chosen);
        } else if constexpr (std::is_same_v<Chosen, StatusCommand>) {
          return run_status(chosen.target, chosen.json);
        } else if constexpr (std::is_same_v<Chosen, InfoCommand>) {
          return run_info(chosen.container, chosen.header, chosen.json);
        } else {
          static_assert(std::is_same_v<Chosen, EnginesCommand>);
          return run_engines(chosen.json);
        }
      },
      command);
}

ExitCode guarded_main(int argc, char** argv) {
  const bool json = wants_json(argc, argv);
  if (has_borrowed_rights()) {
    return report(
        {Errc::invalid_argument, 0,
         "installed so that it has more rights than who calls it (set-uid, set-gid or file "
         "capabilities); take these away, it needs none"},
        json);
  }
  if (!fill_standard_descriptors()) {
    return report({Errc::io, 0, "cannot open /dev/null"}, json);
  }
  const Result<Command> command = parse_command_line(argc, argv);
  if (!command) {
    return report(command.error(), json);
  }
  const ExitCode code = run(*command);
  if (std::fflush(stdout) != 0) {
    return report({Errc::io, 0, "cannot write to standard output"}, json);
  }
  return code;
}

}  // namespace
}  // namespace cryptimg

int main(int argc, char** argv) {
  try {
    return static_cast<int>(cryptimg::guarded_main(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fputs("cryptimg: out of memory.\n", stderr);
    return static_cast<int>(cryptimg::ExitCode::memory);
  } catch (const std::exception& error) {
    return static_cast<int>(cryptimg::report(
        {cryptimg::Errc::io, 0, std::string("unexpected failure: ") + error.what()}));
  }
}
