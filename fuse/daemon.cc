// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/daemon.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fuse_lowlevel.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/container.h"
#include "core/mapped_file.h"
#include "core/sharing.h"
#include "core/text.h"
#include "engines/engines.h"
#include "fuse/commands.h"
#include "fuse/daemon_log.h"
#include "fuse/daemon_mount.h"
#include "fuse/detached.h"
#include "fuse/mount_settings.h"
#include "fuse/mountpoint.h"
#include "fuse/sandbox.h"
#include "fuse/unlock.h"

namespace cryptimg {
namespace {

// For this thread and all it will start: they wait for signals by signalfd only.
UniqueFd take_over_signals() {
  block_signals();
  sigset_t ending;
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGTERM);
  ::sigaddset(&ending, SIGINT);
  return UniqueFd(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
}

// While the folder is still the caller's.
std::string absolute(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  return error ? path : full.string();
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
  mount.uuid = container.info().uuid;
  mount.key = KeyDigest(key.bytes());
  CRYPTIMG_ASSIGN_OR_RETURN(
      mount.engine, make_engine(options.engine, spec, {log_warning, options.offload_by_sector}));
  mount.cipher = cipher_name(spec);

  ImageOptions image = image_options(options, container.info().image_size_bytes);
  if (image.workers > 0) {
    CRYPTIMG_ASSIGN_OR_RETURN(const SharingCosts costs, measure_sharing(*mount.engine, spec, key));
    const SharingThresholds thresholds = sharing_thresholds(costs);
    image.min_shared_read_bytes = thresholds.read_bytes;
    image.min_shared_write_bytes = thresholds.write_bytes;
  }
  CRYPTIMG_ASSIGN_OR_RETURN(std::unique_ptr<BlockDevice> device,
                            container.take_device(options.backing_io));
  return start_threads(options.sandbox, [&] {
    return EncryptedImage::create(std::move(device), *mount.engine, spec, key, image,
                                  session_threads());
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

  DaemonStatus::Facts facts{plan.container,
                            plan.mountpoint,
                            std::string(mount.engine->name()),
                            mount.cipher,
                            session.threads,
                            mount.uuid,
                            options.header ? absolute(*options.header) : std::string()};
  mount.lock = std::make_unique<MountLock>(
      MountLock::Parts{*mount.image, *mount.session, *mount.pool, *mount.engine, mount.key});
  mount.status = std::make_unique<DaemonStatus>(*mount.image, std::move(facts), mount.engine,
                                                mount.lock.get());
  CRYPTIMG_ASSIGN_OR_RETURN(
      mount.control, start_threads(options.sandbox, [&mount] {
        return ControlServer::start(
            mount.entry.device_major, mount.entry.device_minor, ::geteuid(),
            {[status = mount.status.get()](const std::string& line) {
               return status->answer(line);
             },
             [status = mount.status.get()](const Secret& key) { return status->answer_key(key); }});
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
  // Key derivation has been there, which reaches deeper than this.
  constexpr std::size_t kUsedStackBytes = std::size_t{128} << 10;
  wipe_stack(kUsedStackBytes);
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
