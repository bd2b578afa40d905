// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "fuse/daemon.h"
#include "fuse/daemon_log.h"
#include "fuse/daemon_mount.h"
#include "fuse/idle_wiper.h"

namespace cryptimg {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kHopelessTries = 25;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text.empty() ? "someone unknown" : text;
}

// A mount that was asked to end.
struct Ending {
  Clock::time_point asked_at = Clock::now();
  bool told_holders = false;
  unsigned failures = 0;  // tries that failed though nothing was said to hold the mount
};

// One try to end it. False where more of them have no use.
bool try_unmount(Mount& mount, Ending& ending) {
  const Status status = mount.janitor->unmount(false);
  if (status) {
    return true;
  }
  if (status.error().code == Errc::unavailable) {
    if (ending.failures++ == 0) {
      log_error("cannot unmount " + mount.mountpoint + ": " + status.error().message +
                "; unmount it, or signal again");
    }
    return true;
  }
  if (status.error().code != Errc::busy) {
    // Not at the first: fusermount3 also fails for reasons that pass.
    const bool is_hopeless = ++ending.failures >= kHopelessTries;
    if (ending.failures == 1 || is_hopeless) {
      log_error("cannot unmount " + mount.mountpoint + ": " + status.error().message);
    }
    return !is_hopeless || !mount.janitor->holders().empty();
  }
  if (!std::exchange(ending.told_holders, true)) {
    log_info("goes on serving, the mount is held by " + joined(mount.janitor->holders()));
  }
  return true;
}

// Makes sure that nothing is mounted any more. What was unmounted already stays so.
void detach(Mount& mount) {
  const bool is_watched = mount.entry.device_minor != 0;
  if (!is_watched) {
    // Mounted, but not found in the table: what is at the mount point is ours, being newest.
    [[maybe_unused]] const Status status = unmount(mount.mountpoint, true);
    return;
  }
  if (const Status status = mount.janitor->unmount(true); !status) {
    log_warning("cannot unmount " + mount.mountpoint + ": " + status.error().message);
  }
}

Status last_flush(Mount& mount) {
  Status status = mount.image->read_only() ? Status() : mount.image->flush();
  if (!status) {
    log_error("the last flush failed, data written before may be lost");
  }
  return status;
}

}  // namespace

void serve(Mount& mount) {
  const int signals = mount.signals.get();
  std::optional<Ending> ending;
  IdleWiper wiper(*mount.pool);
  std::array<pollfd, 4> waiting = {{{mount.session->ended_fd(), POLLIN, 0},
                                    {signals, POLLIN, 0},
                                    {mount.janitor->gone_fd(), 0, 0},
                                    {-1, POLLIN, 0}}};
  for (;;) {
    waiting[3] = {wiper.fd(), POLLIN, 0};
    int wait_ms = wiper.wait_ms();
    if (ending) {
      const auto interval = static_cast<int>(kUnmountInterval.count());
      wait_ms = wait_ms < 0 ? interval : std::min(wait_ms, interval);
    }
    if (::poll(waiting.data(), waiting.size(), wait_ms) < 0 && errno != EINTR) {
      log_error("poll failed; the mount is ended");
      return;
    }
    if (waiting[0].revents != 0) {
      return;
    }
    wiper.work();
    if (waiting[2].revents != 0) {
      waiting[2] = {-1, 0, 0};
      log_warning("the janitor process is gone: if this daemon is killed too, " + mount.mountpoint +
                  " stays dead until it is unmounted or mounted again");
    }
    signalfd_siginfo info = {};
    if (::read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (ending) {
        log_warning("a second signal: the mount is ended although it is held");
        return;
      }
      log_info("asked to end");
      ending.emplace();
    }
    if (!ending) {
      continue;
    }
    if (!try_unmount(mount, *ending)) {
      return;
    }
    if (Clock::now() - ending->asked_at > kHeldPatience) {
      log_warning("the mount is ended although it is held by " + joined(mount.janitor->holders()));
      return;
    }
  }
}

ExitCode tear_down(Mount& mount) {
  if (mount.session == nullptr) {
    return ExitCode::ok;
  }
  if (mount.lock != nullptr) {
    mount.lock->close();
  }
  detach(mount);
  const bool all_ended = mount.session->stop(kStuckPatience);
  if (mount.session->failure() != 0) {
    log_error(std::string("the session failed: ") + std::strerror(mount.session->failure()));
  }
  const Status flushed = last_flush(mount);
  // Nobody has asked for what is read ahead, so it holds nobody up.
  const bool is_idle = !all_ended || mount.image->stop_reading_ahead(kStuckPatience);
  if (!all_ended || !is_idle) {
    log_error(all_ended ? "reading ahead is stuck; ending without it"
                        : "requests are stuck; ending without them");
    if (mount.control != nullptr) {
      mount.control->finish(flush_line(flushed));
    }
    ::_exit(static_cast<int>(all_ended && flushed ? ExitCode::ok : ExitCode::device));
  }
  if (mount.status != nullptr) {
    mount.status->detach();
  }
  // First the image, which waits for the workers' last answers: these go through fs and session.
  mount.lock.reset();
  mount.image.reset();
  mount.engine.reset();
  mount.session.reset();
  mount.fs.reset();
  if (mount.control != nullptr) {
    mount.control->finish(flush_line(flushed));
  }
  return flushed ? ExitCode::ok : ExitCode::device;
}

}  // namespace cryptimg
