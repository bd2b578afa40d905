// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/text.h"
#include "core/unique_fd.h"
#include "fuse/commands.h"
#include "fuse/control.h"
#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

bool same_device(const MountEntry& a, const MountEntry& b) {
  return a.device_major == b.device_major && a.device_minor == b.device_minor;
}

// Several targets may be unmounted at once: each error says of which it speaks.
Error about(const MountEntry& mount, Error error) {
  error.message = "cannot unmount " + mount.mountpoint + ": " + error.message;
  return error;
}

// The daemon of a mount, and how it says goodbye.
struct Daemon {
  ControlClient client;
  UniqueFd process;  // a pidfd, taken before the end so that the number cannot be reused
};

// Nothing where no daemon answers.
Result<std::optional<Daemon>> attend(const MountEntry& mount) {
  auto client = ControlClient::connect(mount.device_major, mount.device_minor, mount.owner);
  if (!client) {
    if (client.error().code == Errc::not_found) {
      return std::optional<Daemon>();
    }
    return tl::unexpected(about(mount, std::move(client.error())));
  }
  if (Status sent = client->send(R"({"command":"wait-end"})"); !sent) {
    return tl::unexpected(about(mount, std::move(sent.error())));
  }
  const long process = ::syscall(SYS_pidfd_open, client->daemon_pid(), 0);
  return Daemon{std::move(*client), UniqueFd(static_cast<int>(process))};
}

Status flush_result(const std::string& answer, const MountEntry& mount) {
  const auto object = nlohmann::json::parse(answer, nullptr, false);
  const bool is_object = object.is_object();
  if (is_object && object.value("flush", nlohmann::json()) == "ok") {
    return {};
  }
  const auto message = is_object ? object.value("message", nlohmann::json()) : nlohmann::json();
  return fail(Errc::io, "the last flush of " + mount.mountpoint +
                            " failed, data written before may be lost: " +
                            (message.is_string() ? message.get<std::string>()
                                                 : std::string("the daemon gave no reason")));
}

Status wait_for_end(Daemon& daemon, const MountEntry& mount) {
  const auto answer = daemon.client.receive(-1);
  Status result;
  if (answer) {
    result = flush_result(*answer, mount);
  } else {
    result = fail(Errc::io, "the daemon of " + mount.mountpoint +
                                " ended without a word, data written before may be lost");
  }
  if (daemon.process.valid()) {
    pollfd ended{daemon.process.get(), POLLIN, 0};
    while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
    }
  }
  return result;
}

Error with_holders(Error error, const MountEntry& mount) {
  std::string holders;
  for (const std::string& holder : find_holders(mount)) {
    holders += (holders.empty() ? "" : ", ") + holder;
  }
  error.message =
      mount.mountpoint + " is in use" +
      (holders.empty() ? " by someone that cannot be seen from here" : " by " + holders) +
      "; end that first, or see --lazy";
  return error;
}

// Whether this device is still mounted somewhere in our sight: its daemon then lives on.
std::optional<std::string> still_mounted(const MountEntry& mount) {
  const auto mounts = list_mounts();
  if (mounts) {
    for (const MountEntry& other : *mounts) {
      if (same_device(other, mount)) {
        return other.mountpoint;
      }
    }
  }
  return std::nullopt;
}

// The flush of a mount whose daemon lives but cannot be asked: through the mount itself.
Status flush_through(const MountEntry& mount) {
  const UniqueFd file(::open(image_path(mount).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.valid() && ::fsync(file.get()) == 0) {
    return {};
  }
  return fail_errno(errno, "the daemon of " + mount.mountpoint +
                               " cannot be asked from here, nor its image be flushed, data written "
                               "before may be lost");
}

// Unmounts the mounts of one device (one, but for bind mounts), topmost first.
Status unmount_device(const std::vector<MountEntry>& mounts, bool lazy) {
  const MountEntry& mount = mounts.back();
  CRYPTIMG_ASSIGN_OR_RETURN(std::optional<Daemon> daemon, attend(mount));
  // Of a dead mount nothing can be lost any more, and whoever holds it can only fail.
  const bool unheard = !daemon && !lazy && !is_dead(mount);
  const Status flushed = unheard ? flush_through(mount) : Status();
  for (auto entry = mounts.rbegin(); entry != mounts.rend(); ++entry) {
    Status status = unmount(entry->mountpoint, lazy);
    if (!status && status.error().code == Errc::busy && !daemon && is_dead(*entry)) {
      status = unmount(entry->mountpoint, true);
    }
    if (!status) {
      return tl::unexpected(status.error().code == Errc::busy
                                ? with_holders(std::move(status.error()), *entry)
                                : std::move(status.error()));
    }
  }
  if (unheard && flushed) {
    std::fprintf(stderr,
                 "cryptimg: the daemon of %s cannot be asked from here (it may live in another "
                 "network namespace): the image was flushed, but its end is not waited for.\n",
                 printable(mount.mountpoint).c_str());
  }
  if (!daemon || lazy) {
    return flushed;
  }
  if (const auto place = still_mounted(mount)) {
    std::fprintf(stderr, "cryptimg: it is still mounted on %s, so the daemon stays.\n",
                 printable(*place).c_str());
    return {};
  }
  return wait_for_end(*daemon, mount);
}

// A container mounted read-write is mounted once. Where its name finds more, another file has taken
// that name since, and only the mount points tell them apart.
Status check_one_container(const std::vector<MountEntry>& found, const std::string& target) {
  if (std::all_of(found.begin(), found.end(), [&](const MountEntry& entry) {
        return entry.mountpoint == found.front().mountpoint;
      })) {
    return {};
  }
  std::vector<MountEntry> living;
  bool writable = false;
  for (const MountEntry& entry : found) {
    const bool known = std::any_of(living.begin(), living.end(), [&](const MountEntry& other) {
      return same_device(entry, other);
    });
    if (!known && !is_dead(entry)) {
      living.push_back(entry);
      writable = writable || !entry.read_only;
    }
  }
  if (living.size() < 2 || !writable) {
    return {};
  }
  std::string places;
  for (const MountEntry& entry : living) {
    places += (places.empty() ? "" : ", ") + entry.mountpoint;
  }
  return fail(Errc::busy, target + " names more than one container (its name has changed hands): " +
                              "unmount by mount point, one of " + places);
}

Status unmount_target(const std::string& target, bool lazy) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::vector<MountEntry> all, list_mounts());
  std::vector<MountEntry> found = find_mounts(all, target);
  if (found.empty()) {
    return fail(Errc::not_found, target + " is not mounted by cryptimg");
  }
  CRYPTIMG_RETURN_IF_ERROR(check_one_container(found, target));
  Status result;
  while (!found.empty()) {
    const MountEntry last = found.back();
    std::vector<MountEntry> together;
    for (const MountEntry& entry : found) {
      if (same_device(entry, last)) {
        together.push_back(entry);
      }
    }
    std::erase_if(found, [&](const MountEntry& entry) { return same_device(entry, last); });
    if (Status status = unmount_device(together, lazy); !status && result) {
      result = std::move(status);
    }
  }
  return result;
}

}  // namespace

ExitCode run_umount(const UmountOptions& options) {
  if (options.lazy) {
    std::fputs(
        "cryptimg: --lazy does not wait: until its last user lets go, the daemon goes on writing "
        "out of sight, and neither a failed write nor its end is reported.\n",
        stderr);
  }
  ExitCode worst = ExitCode::ok;
  for (const std::string& target : options.targets) {
    if (const Status status = unmount_target(target, options.lazy); !status) {
      worst = std::max(worst, report(status.error()));
    }
  }
  return worst;
}

}  // namespace cryptimg
