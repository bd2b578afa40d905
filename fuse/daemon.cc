// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/daemon.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer_pool.h"
#include "core/container.h"
#include "core/encrypted_image.h"
#include "core/text.h"
#include "engines/engines.h"
#include "fuse/commands.h"
#include "fuse/control.h"
#include "fuse/daemon_log.h"
#include "fuse/daemon_status.h"
#include "fuse/detached.h"
#include "fuse/image_fs.h"
#include "fuse/janitor.h"
#include "fuse/mount_settings.h"
#include "fuse/mount_table.h"
#include "fuse/mountpoint.h"
#include "fuse/sandbox.h"
#include "fuse/session.h"
#include "fuse/unlock.h"

namespace cryptimg {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kHopelessTries = 25;

// What serves one mount. Members are destroyed from the last to the first.
struct Mount {
  std::string mountpoint;
  UniqueFd signals;
  std::unique_ptr<Janitor> janitor;
  std::shared_ptr<const CipherEngine> engine;
  std::string cipher;
  std::unique_ptr<BufferPool> pool;
  std::unique_ptr<EncryptedImage> image;
  std::unique_ptr<ImageFs> fs;
  std::unique_ptr<Session> session;
  std::unique_ptr<DaemonStatus> status;
  std::unique_ptr<ControlServer> control;
  MountEntry entry;
};

// For this thread and all it will start: they wait for signals by signalfd only.
UniqueFd take_over_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  sigset_t ending;
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGTERM);
  ::sigaddset(&ending, SIGINT);
  return UniqueFd(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
}

// For who mounts, and for who reads the log later.
void warn(const std::string& warning) {
  std::fprintf(stderr, "cryptimg: warning: %s.\n", printable(warning).c_str());
  log_warning(warning);
}

// Opens and unlocks; everything secret but the engine's key schedules is gone on return.
Result<std::unique_ptr<EncryptedImage>> open_image(const DaemonPlan& plan, Mount& mount) {
  const MountOptions& options = plan.options;
  OpenOptions open;
  open.container = plan.container;
  open.header = options.header;
  open.read_only = options.read_only;
  CRYPTIMG_ASSIGN_OR_RETURN(Container container, open_when_free(open));
  if (!container.info().warning.empty()) {
    warn(plan.container + ": " + container.info().warning);
  }
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, unlock_container(container, options));
  mount.signals = take_over_signals();
  if (!mount.signals.valid()) {
    return fail_errno(errno, "cannot make a signal descriptor");
  }
  const CipherSpec& spec = container.spec();
  CRYPTIMG_ASSIGN_OR_RETURN(
      mount.engine, make_engine(options.engine, spec, {log_warning, options.offload_by_sector}));
  mount.cipher = cipher_name(spec);

  const ImageOptions image = image_options(options, container.info().image_size_bytes);
  return start_threads(options.sandbox, [&] {
    return EncryptedImage::create(container.take_device(options.backing_io), *mount.engine, spec,
                                  key, image, session_threads());
  });
}

Result<MountEntry> find_own_entry(const DaemonPlan& plan) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::vector<MountEntry> mounts, list_mounts());
  const auto own = std::find_if(mounts.rbegin(), mounts.rend(), [&](const MountEntry& entry) {
    return entry.mountpoint == plan.mountpoint && entry.container == plan.container;
  });
  if (own == mounts.rend()) {
    return fail(Errc::io, "the new mount does not appear in /proc/self/mountinfo");
  }
  return *own;
}

Status attach(const DaemonPlan& plan, Mount& mount) {
  const MountOptions& options = plan.options;
  const SessionOptions session = session_options(options, plan.mountpoint, plan.container);
  CRYPTIMG_ASSIGN_OR_RETURN(
      mount.pool, BufferPool::create(buffer_count(mount.image->workers()), kRequestBufferBytes));
  mount.fs = std::make_unique<ImageFs>(*mount.image, *mount.pool,
                                       fs_options(options, plan.mountpoint_is_file));
  // Until our own entry is known: another mount at the same place would be mistaken for it.
  CRYPTIMG_ASSIGN_OR_RETURN(const UniqueFd claim, claim_mountpoint(plan.mountpoint));
  CRYPTIMG_ASSIGN_OR_RETURN(mount.session,
                            Session::mount(session, ImageFs::operations(), mount.fs.get()));
  CRYPTIMG_ASSIGN_OR_RETURN(mount.entry, find_own_entry(plan));
  CRYPTIMG_RETURN_IF_ERROR(
      mount.janitor->watch(mount.entry.device_major, mount.entry.device_minor));
  CRYPTIMG_RETURN_IF_ERROR(
      start_threads(options.sandbox, [&mount] { return mount.session->start(*mount.pool); }));

  const std::string image = plan.mountpoint_is_file ? plan.mountpoint : plan.mountpoint + "/image";
  struct stat attributes = {};
  if (::stat(image.c_str(), &attributes) != 0) {
    return fail_errno(errno, "the new mount does not work");
  }

  DaemonStatus::Facts facts{plan.container, plan.mountpoint, std::string(mount.engine->name()),
                            mount.cipher, session.threads};
  mount.status = std::make_unique<DaemonStatus>(*mount.image, std::move(facts), mount.engine);
  CRYPTIMG_ASSIGN_OR_RETURN(mount.control, start_threads(options.sandbox, [&mount] {
                              return ControlServer::start(
                                  mount.entry.device_major, mount.entry.device_minor, ::geteuid(),
                                  [status = mount.status.get()](const std::string& line) {
                                    return status->answer(line);
                                  });
                            }));
  return {};
}

// The files of this mount, none of which is fit for its log.
std::vector<PreciousFile> precious_files(const DaemonPlan& plan) {
  const MountOptions& options = plan.options;
  std::vector<PreciousFile> files = {{plan.container, "the container"},
                                     {plan.mountpoint, "the mount point"}};
  if (options.header) {
    files.push_back({*options.header, "the container's header"});
  }
  const bool from_stdin = options.key_file.value_or("-") == "-";
  files.push_back({from_stdin ? "/proc/self/fd/0" : *options.key_file, "the key file"});
  return files;
}

Status set_up(const DaemonPlan& plan, Mount& mount) {
  const MountOptions& options = plan.options;
  mount.mountpoint = plan.mountpoint;
  CRYPTIMG_ASSIGN_OR_RETURN(mount.janitor, Janitor::start(plan.mountpoint));
  CRYPTIMG_RETURN_IF_ERROR(
      open_log(options.log_file, options.foreground, options.log_level, precious_files(plan)));
  if (!prepare_to_serve()) {
    log_info(
        "not an I/O flusher, which needs CAP_SYS_RESOURCE: no place for it in the "
        "memory-limited control group of who uses a loop device on the image");
  }

  auto image = open_image(plan, mount);
  // Not before: libcryptsetup opens /proc/self/fd/N, which then is root's.
  const bool is_guarded = ::prctl(PR_SET_DUMPABLE, 0) == 0;
  const int guard_errno = errno;
  if (!image) {
    return tl::unexpected(std::move(image.error()));
  }
  if (!is_guarded) {
    return fail_errno(guard_errno, "cannot keep others from reading the daemon's memory");
  }
  mount.image = std::move(*image);
  if (!Secret::all_locked()) {
    warn("the key could not be locked into memory and may reach swap; raise RLIMIT_MEMLOCK");
  }
  return attach(plan, mount);
}

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

// Returns when the session has ended by itself, or is to be ended by force.
void serve(Mount& mount) {
  const int signals = mount.signals.get();
  std::optional<Ending> ending;
  std::array<pollfd, 3> waiting = {{{mount.session->ended_fd(), POLLIN, 0},
                                    {signals, POLLIN, 0},
                                    {mount.janitor->gone_fd(), 0, 0}}};
  for (;;) {
    const int wait_ms = ending ? static_cast<int>(kUnmountInterval.count()) : -1;
    if (::poll(waiting.data(), waiting.size(), wait_ms) < 0 && errno != EINTR) {
      log_error("poll failed; the mount is ended");
      return;
    }
    if (waiting[0].revents != 0) {
      return;
    }
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

// Ends what set_up began, however far it came. The container's lock is free, and every key gone,
// before clients hear of the end.
ExitCode tear_down(Mount& mount) {
  if (mount.session == nullptr) {
    return ExitCode::ok;
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
  mount.image.reset();
  mount.engine.reset();
  mount.session.reset();
  mount.fs.reset();
  if (mount.control != nullptr) {
    mount.control->finish(flush_line(flushed));
  }
  return flushed ? ExitCode::ok : ExitCode::device;
}

}  // namespace

ExitCode run_daemon(const DaemonPlan& plan, const DaemonHooks& hooks) {
  constexpr mode_t kOnlyOwner = 077;
  ::umask(kOnlyOwner);
  Mount mount;
  Status status = set_up(plan, mount);
  if (status) {
    log_info("serves " + plan.container + " on " + plan.mountpoint + " with " +
             std::string(mount.engine->name()));
    status = hooks.on_serving(mount.image->sector_size_bytes());
  }
  if (!status) {
    tear_down(mount);
    return report(status.error());
  }
  if (plan.options.sandbox) {
    mount.janitor->rely_on_janitor();
    log_info("sandbox: " + enter_sandbox());
  }
  hooks.on_ready(mount.image->sector_size_bytes());
  serve(mount);
  const ExitCode code = tear_down(mount);
  log_info("ended");
  return code;
}

}  // namespace cryptimg
