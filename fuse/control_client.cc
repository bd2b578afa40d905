// SPDX-License-Identifier: GPL-3.0-or-later
//
// The client's side of control.h, and control_socket.h.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fuse/control.h"
#include "fuse/control_socket.h"
#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

constexpr timeval kSendPatience = {5, 0};

// The abstract names in /proc/net/unix that begin with `prefix`. A connection's server side shows
// the same name as its listener.
std::vector<std::string> find_names(const std::string& text, const std::string& prefix) {
  std::vector<std::string> names;
  const std::string shown = " @" + prefix;
  for (std::size_t at = text.find(shown); at != std::string::npos; at = text.find(shown, at + 1)) {
    const std::size_t begin = at + 2;
    names.push_back(text.substr(begin, text.find('\n', begin) - begin));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

UniqueFd connect_to(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || name.size() + 1 > sizeof(sockaddr_un::sun_path)) {
    return {};
  }
  // Bounds the connect too, which waits while the daemon has its 16 connections.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendPatience, sizeof kSendPatience);
  const ControlAddress address = control_address(name);
  if (::connect(socket.get(), address.get(), address.size()) != 0) {
    return {};
  }
  return socket;
}

}  // namespace

std::string control_prefix(std::uint32_t device_major, std::uint32_t device_minor) {
  return "cryptimg-" + std::to_string(device_major) + "-" + std::to_string(device_minor) + "-";
}

ControlAddress control_address(const std::string& name) {
  ControlAddress result;
  result.address.sun_family = AF_UNIX;
  // The leading zero byte makes it abstract.
  const std::size_t length = std::min(name.size(), sizeof result.address.sun_path - 1);
  std::memcpy(result.address.sun_path + 1, name.data(), length);
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return result;
}

std::optional<ucred> control_peer(int socket) {
  ucred peer = {};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return std::nullopt;
  }
  return peer;
}

Result<ControlClient> ControlClient::connect(std::uint32_t device_major, std::uint32_t device_minor,
                                             uid_t owner) {
  if (::geteuid() != owner && ::geteuid() != 0) {
    return fail(Errc::permission, "only the mount's owner and root may ask its daemon");
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const std::string text, read_proc_file("/proc/net/unix"));
  for (const std::string& name : find_names(text, control_prefix(device_major, device_minor))) {
    ControlClient client;
    client.socket_ = connect_to(name);
    if (!client.socket_.valid()) {
      continue;
    }
    const auto peer = control_peer(client.socket_.get());
    if (peer && (peer->uid == owner || peer->uid == 0)) {
      client.daemon_pid_ = peer->pid;
      return client;
    }
  }
  return fail(Errc::not_found, "no daemon answers for this mount");
}

Status ControlClient::send_all(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      return fail_errno(errno, "cannot ask the daemon");
    }
  }
  return {};
}

Status ControlClient::send(const std::string& request) {
  const std::string line = request + "\n";
  return send_all(Bytes(reinterpret_cast<const std::byte*>(line.data()), line.size()));
}

Status ControlClient::send_key(const Secret& key) {
  return send_all(key.bytes());
}

Result<std::string> ControlClient::receive(int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::string input;
  for (;;) {
    int wait_ms = -1;
    if (timeout_ms >= 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      wait_ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
    }
    pollfd waiting = {socket_.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, wait_ms);
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return fail(Errc::unavailable, "the daemon does not answer");
    }
    std::array<char, 4096> piece;
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return fail(Errc::unavailable, "the daemon ended without an answer");
    }
    input.append(piece.data(), static_cast<std::size_t>(got));
    const std::size_t end = input.find('\n');
    if (end != std::string::npos) {
      return input.substr(0, end);
    }
    if (input.size() >= kMaxControlLineBytes) {
      return fail(Errc::corrupt, "the daemon's answer is too long");
    }
  }
}

Result<std::string> ControlClient::ask(const std::string& request, int timeout_ms) {
  CRYPTIMG_RETURN_IF_ERROR(send(request));
  return receive(timeout_ms);
}

}  // namespace cryptimg
