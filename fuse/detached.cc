// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/detached.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <unistd.h>

#include "fuse/control.h"
#include "fuse/daemon_status.h"

namespace cryptimg {
namespace {

using Device = std::pair<std::uint32_t, std::uint32_t>;  // major, minor

constexpr int kAnswerTimeoutMs = 2000;

// The devices that control sockets are named after.
std::set<Device> devices_with_daemons() {
  std::set<Device> devices;
  const auto text = read_proc_file("/proc/net/unix");
  if (!text) {
    return devices;
  }
  const std::string shown = " @cryptimg-";
  for (std::size_t at = text->find(shown); at != std::string::npos;
       at = text->find(shown, at + 1)) {
    Device device;
    // NOLINTNEXTLINE(cert-err34-c): a number out of range names no device that answers
    if (std::sscanf(text->c_str() + at + shown.size(), "%u-%u-", &device.first, &device.second) ==
        2) {
      devices.insert(device);
    }
  }
  return devices;
}

std::optional<DetachedDaemon> ask(const Device& device) {
  auto client = ControlClient::connect(device.first, device.second, ::geteuid());
  if (!client) {
    return std::nullopt;
  }
  const auto answer = client->ask(R"({"command":"status"})", kAnswerTimeoutMs);
  if (!answer) {
    return std::nullopt;
  }
  const auto place = served_place(*answer);
  if (!place) {
    return std::nullopt;
  }
  DetachedDaemon daemon;
  daemon.mount.device_major = device.first;
  daemon.mount.device_minor = device.second;
  daemon.mount.container = place->container;
  daemon.mount.mountpoint = place->mountpoint;
  daemon.mount.owner = ::geteuid();
  daemon.mount.read_only = place->read_only;
  daemon.pid = client->daemon_pid();
  daemon.answer = *answer;
  return daemon;
}

}  // namespace

std::vector<DetachedDaemon> find_detached(const std::vector<MountEntry>& mounts) {
  std::vector<DetachedDaemon> found;
  for (const Device& device : devices_with_daemons()) {
    const bool is_visible = std::any_of(mounts.begin(), mounts.end(), [&](const MountEntry& entry) {
      return Device(entry.device_major, entry.device_minor) == device;
    });
    if (is_visible) {
      continue;
    }
    if (auto daemon = ask(device)) {
      found.push_back(std::move(*daemon));
    }
  }
  return found;
}

Error say_where_mounted(Error error, const std::string& container) {
  if (error.code != Errc::busy) {
    return error;
  }
  const auto mounts = list_mounts();
  if (!mounts) {
    return error;
  }
  if (const auto visible = mounts_of_container(*mounts, container); !visible.empty()) {
    error.message += ": on " + visible.front().mountpoint;
    return error;
  }
  for (const DetachedDaemon& daemon : find_detached(*mounts)) {
    if (!mounts_of_container({daemon.mount}, container).empty()) {
      error.message += ": daemon " + std::to_string(daemon.pid) + " holds it, whose mount on " +
                       daemon.mount.mountpoint +
                       " is out of sight (a lazy unmount, or another mount namespace)";
      break;
    }
  }
  return error;
}

Result<Container> open_when_free(const OpenOptions& options) {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kPause{20};
  for (int tries = kTries;; --tries) {
    auto opened = Container::open(options);
    if (opened || opened.error().code != Errc::busy) {
      return opened;
    }
    const std::string before = opened.error().message;
    Error error = say_where_mounted(std::move(opened.error()), options.container);
    if (tries == 0 || error.message != before) {
      return tl::unexpected(std::move(error));
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace cryptimg
