// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/janitor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <optional>
#include <type_traits>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

enum class Command : std::uint32_t { watch, unmount, unmount_lazily, list_holders };

constexpr std::size_t kMaxHoldersBytes = 16384;

struct Message {
  Command command = Command::watch;
  std::uint32_t device_major = 0;  // watch only
  std::uint32_t device_minor = 0;
};

struct Answer {
  bool ok = true;
  Errc code = Errc::io;
  int os_errno = 0;
};
static_assert(std::is_trivially_copyable_v<Message> && std::is_trivially_copyable_v<Answer>);

// Messages keep their boundaries (SOCK_SEQPACKET), so one call is one message. False at the end.
template <typename T>
bool receive(int socket, T& message) {
  ssize_t got = 0;
  do {
    got = ::recv(socket, &message, sizeof message, 0);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof message);
}

template <typename T>
bool send(int socket, const T& message) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, &message, sizeof message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

// Whether what is visible at the mount point is ours, not something mounted over it. Asks the
// daemon nothing, which may be dead or stuck.
bool on_top(const WatchedMount& watched) {
  struct statx answer = {};
  return ::statx(AT_FDCWD, watched.mountpoint.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0,
                 &answer) == 0 &&
         answer.stx_dev_major == watched.device_major &&
         answer.stx_dev_minor == watched.device_minor;
}

std::optional<MountEntry> entry_of(const WatchedMount& watched) {
  const auto mounts = list_mounts();
  if (!mounts) {
    return std::nullopt;
  }
  const auto found = std::find_if(mounts->begin(), mounts->end(), [&](const MountEntry& entry) {
    return entry.device_major == watched.device_major &&
           entry.device_minor == watched.device_minor && entry.mountpoint == watched.mountpoint;
  });
  return found == mounts->end() ? std::nullopt : std::optional(*found);
}

// Who holds it; `daemon` is not meant.
std::vector<std::string> holders_of(const WatchedMount& watched, pid_t daemon) {
  const auto entry = entry_of(watched);
  std::vector<std::string> holders = entry ? find_holders(*entry) : std::vector<std::string>();
  const std::string self = "process " + std::to_string(daemon) + " ";
  std::erase_if(holders, [&](const std::string& holder) { return holder.rfind(self, 0) == 0; });
  return holders;
}

// Each ended by a zero byte, as many as fit.
bool send_holders(int socket, const std::vector<std::string>& holders) {
  std::string text(1, '\0');  // a message of no bytes would be the end
  for (const std::string& holder : holders) {
    if (text.size() + holder.size() + 1 > kMaxHoldersBytes) {
      break;
    }
    text.append(holder).push_back('\0');
  }
  ssize_t sent = 0;
  do {
    sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

Answer unmount_watched(const WatchedMount& watched, bool lazy) {
  if (watched.device_minor == 0 || !entry_of(watched)) {
    return {};
  }
  if (!on_top(watched)) {
    return {false, Errc::busy, EBUSY};
  }
  const Status status = ::cryptimg::unmount(watched.mountpoint, lazy);
  if (status || status.error().code == Errc::not_found) {
    return {};
  }
  return {false, status.error().code, status.error().os_errno};
}

// All descriptors but the socket, which becomes number 3: standard ones lead to /dev/null.
int keep_only(int socket) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(null, fd);
  }
  constexpr int kSocket = 3;
  if (socket != kSocket) {
    ::dup3(socket, kSocket, O_CLOEXEC);
  }
  ::close_range(kSocket + 1, ~0U, 0);
  return kSocket;
}

void run_janitor(int socket, const std::string& mountpoint) {
  ::prctl(PR_SET_NAME, "cryptimg-jan");
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    ::signal(signal, SIG_IGN);
  }
  socket = keep_only(socket);
  [[maybe_unused]] const int moved = ::chdir("/");

  WatchedMount watched{mountpoint};
  Message message;
  while (receive(socket, message)) {
    Answer answer;
    if (message.command == Command::list_holders) {
      if (!send_holders(socket, holders_of(watched, ::getppid()))) {
        break;
      }
      continue;
    }
    if (message.command == Command::watch) {
      watched.device_major = message.device_major;
      watched.device_minor = message.device_minor;
    } else {
      answer = unmount_watched(watched, message.command == Command::unmount_lazily);
    }
    if (!send(socket, answer)) {
      break;
    }
  }
  unmount_watched(watched, true);
}

Result<Answer> ask(int socket, const Message& message) {
  Answer answer;
  if (!send(socket, message) || !receive(socket, answer)) {
    return fail(Errc::unavailable, "the janitor process is gone");
  }
  return answer;
}

}  // namespace

Result<std::unique_ptr<Janitor>> Janitor::start(const std::string& mountpoint) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno(errno, "cannot make a socket for the janitor process");
  }
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t process = ::fork();
  if (process < 0) {
    return fail_errno(errno, "cannot start the janitor process");
  }
  if (process == 0) {
    int code = 0;
    try {
      run_janitor(theirs.get(), mountpoint);
    } catch (const std::exception&) {
      code = 1;
    }
    ::_exit(code);
  }
  return std::unique_ptr<Janitor>(new Janitor(std::move(ours), process, mountpoint));
}

Janitor::~Janitor() {
  socket_.reset();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status Janitor::watch(std::uint32_t device_major, std::uint32_t device_minor) {
  watched_.device_major = device_major;
  watched_.device_minor = device_minor;
  CRYPTIMG_ASSIGN_OR_RETURN([[maybe_unused]] const Answer answer,
                            ask(socket_.get(), {Command::watch, device_major, device_minor}));
  return {};
}

Status Janitor::unmount(bool lazy) {
  const Message message{lazy ? Command::unmount_lazily : Command::unmount, 0, 0};
  const Result<Answer> asked = ask(socket_.get(), message);
  if (!asked && !has_fallback_) {
    return tl::unexpected(asked.error());
  }
  const Answer answer = asked ? *asked : unmount_watched(watched_, lazy);
  if (!answer.ok) {
    return answer.os_errno != 0 ? fail(answer.code, std::strerror(answer.os_errno), answer.os_errno)
                                : fail(answer.code, "fusermount3 failed");
  }
  return {};
}

std::vector<std::string> Janitor::holders() {
  std::string text(kMaxHoldersBytes, '\0');
  ssize_t got = -1;
  if (send(socket_.get(), Message{Command::list_holders, 0, 0})) {
    do {
      got = ::recv(socket_.get(), text.data(), text.size(), 0);
    } while (got < 0 && errno == EINTR);
  }
  if (got <= 0) {
    return has_fallback_ ? holders_of(watched_, ::getpid()) : std::vector<std::string>();
  }
  text.resize(static_cast<std::size_t>(got));
  std::vector<std::string> holders;
  for (std::size_t at = 1; at < text.size(); at += holders.back().size() + 1) {
    holders.emplace_back(text.c_str() + at);
  }
  return holders;
}

}  // namespace cryptimg
