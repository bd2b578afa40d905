// SPDX-License-Identifier: GPL-3.0-or-later
//
// What both sides of the control channel share: names, addresses, peer credentials. Pure functions
// and system calls, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/socket.h>
#include <sys/un.h>

namespace cryptimg {

inline constexpr std::size_t kMaxControlLineBytes = 65536;

// "cryptimg-<major>-<minor>-"; the random part follows.
std::string control_prefix(std::uint32_t device_major, std::uint32_t device_minor);

// An address in the abstract namespace.
struct ControlAddress {
  sockaddr_un address = {};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  [[nodiscard]] socklen_t size() const { return length; }
};
// REQUIRES: the name fits into sockaddr_un (about 100 bytes).
ControlAddress control_address(const std::string& name);

// Who is at the other end of a connected socket, as of its connect or listen.
std::optional<ucred> control_peer(int socket);

}  // namespace cryptimg
