// SPDX-License-Identifier: GPL-3.0-or-later
//
// plain_server: what cryptimg is measured against. It serves one unencrypted file as
// MOUNTPOINT/image by pread and pwrite. Session threads, descriptors, request size, max_background
// and the rules of flush and fsync are cryptimg's own code (Session, ImageFs's init, Flusher), so
// that only the path of the bytes differs. With --null nothing is read or written: each answer is
// the same buffer, which is FUSE's own limit.
//
// Stays in the foreground until the mount is gone; SIGTERM and SIGINT unmount.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/block_device.h"
#include "core/buffer_pool.h"
#include "core/flusher.h"
#include "core/unique_fd.h"
#include "fuse/image_fs.h"
#include "fuse/mount_table.h"
#include "fuse/session.h"

namespace cryptimg::bench {
namespace {

constexpr fuse_ino_t kImageInode = 2;
constexpr double kCacheSeconds = 3600.0;
constexpr std::string_view kImageName = "image";
constexpr unsigned kSpareBuffers = 4;
constexpr unsigned kMaxThreads = 64;

struct Options {
  std::string file;
  std::string mountpoint;
  unsigned threads = 4;
  bool null = false;
};

// What every handler finds as user data.
struct Server {
  UniqueFd file;
  off_t size_bytes = 0;
  bool null = false;
  BufferPool* pool = nullptr;
  Flusher* flusher = nullptr;
};

// An open of the image, as ImageFs::Handle.
struct Handle {
  std::atomic<std::uint64_t> last_write{0};
};

Server& server_of(fuse_req_t request) {
  return *static_cast<Server*>(::fuse_req_userdata(request));
}

Handle& handle_of(const fuse_file_info* info) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel carries it as a number
  return *reinterpret_cast<Handle*>(info->fh);
}

struct stat attributes_of(const Server& server, fuse_ino_t inode) {
  const bool is_image = inode == kImageInode;
  struct stat attributes = {};
  attributes.st_ino = inode;
  attributes.st_mode = is_image ? S_IFREG | 0600U : S_IFDIR | 0700U;
  attributes.st_nlink = is_image ? 1 : 2;
  attributes.st_uid = ::geteuid();
  attributes.st_gid = ::getegid();
  attributes.st_size = is_image ? server.size_bytes : 0;
  attributes.st_blksize = 4096;
  return attributes;
}

void on_lookup(fuse_req_t request, fuse_ino_t /*parent*/, const char* name) {
  if (std::string_view(name) != kImageName) {
    ::fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry = {};
  entry.ino = kImageInode;
  entry.generation = 1;
  entry.attr = attributes_of(server_of(request), kImageInode);
  entry.attr_timeout = kCacheSeconds;
  entry.entry_timeout = kCacheSeconds;
  ::fuse_reply_entry(request, &entry);
}

void on_forget(fuse_req_t request, fuse_ino_t /*inode*/, std::uint64_t /*lookups*/) {
  ::fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*info*/) {
  const struct stat attributes = attributes_of(server_of(request), inode);
  ::fuse_reply_attr(request, &attributes, kCacheSeconds);
}

void on_setattr(fuse_req_t request, fuse_ino_t inode, struct stat* /*wanted*/, int /*to_set*/,
                fuse_file_info* info) {
  on_getattr(request, inode, info);
}

void on_open(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  auto* handle = new (std::nothrow) Handle;
  if (handle == nullptr) {
    ::fuse_reply_err(request, ENOMEM);
    return;
  }
  info->fh = reinterpret_cast<std::uintptr_t>(handle);
  info->keep_cache = 1;
  // An open that was interrupted meanwhile has no release.
  if (::fuse_reply_open(request, info) != 0) {
    delete handle;
  }
}

void on_release(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  delete &handle_of(info);
  ::fuse_reply_err(request, 0);
}

// The size that is left of a request at `offset`.
std::size_t clipped(const Server& server, std::size_t size_bytes, off_t offset) {
  const off_t rest = std::max<off_t>(server.size_bytes - offset, 0);
  return std::min({size_bytes, static_cast<std::size_t>(rest), kMaxIoBytes});
}

void on_read(fuse_req_t request, fuse_ino_t /*inode*/, std::size_t size, off_t offset,
             fuse_file_info* /*info*/) {
  const Server& server = server_of(request);
  const std::size_t wanted = clipped(server, size, offset);
  const MutableBytes buffer = server.pool->acquire();
  auto* const content = reinterpret_cast<char*>(buffer.data() + kPayloadOffset);
  const ssize_t got = server.null ? static_cast<ssize_t>(wanted)
                                  : ::pread(server.file.get(), content, wanted, offset);
  if (got < 0) {
    ::fuse_reply_err(request, errno);
  } else {
    ::fuse_reply_buf(request, content, static_cast<std::size_t>(got));
  }
  server.pool->release(buffer);
}

void on_write(fuse_req_t request, fuse_ino_t /*inode*/, const char* payload, std::size_t size,
              off_t offset, fuse_file_info* info) {
  const Server& server = server_of(request);
  const std::size_t wanted = clipped(server, size, offset);
  if (wanted == 0 && size != 0) {
    ::fuse_reply_err(request, ENOSPC);
    return;
  }
  if (server.null) {
    ::fuse_reply_write(request, wanted);
    return;
  }
  const ssize_t put = ::pwrite(server.file.get(), payload, wanted, offset);
  if (put < 0) {
    ::fuse_reply_err(request, errno);
    return;
  }
  handle_of(info).last_write = server.flusher->note_write();
  if ((info->flags & (O_SYNC | O_DSYNC)) != 0 && !server.flusher->flush()) {
    ::fuse_reply_err(request, EIO);
    return;
  }
  ::fuse_reply_write(request, static_cast<std::size_t>(put));
}

void on_flush(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  Flusher& flusher = *server_of(request).flusher;
  const std::uint64_t last_write = handle_of(info).last_write.load();
  const bool is_flushed = last_write <= flusher.flushed_sequence();
  const Status status = last_write == 0 ? Status()
                        : is_flushed    ? flusher.state()
                                        : flusher.flush_if_dirty();
  ::fuse_reply_err(request, status ? 0 : EIO);
}

void on_fsync(fuse_req_t request, fuse_ino_t /*inode*/, int /*data_only*/,
              fuse_file_info* /*info*/) {
  const Server& server = server_of(request);
  ::fuse_reply_err(request, server.null || server.flusher->flush() ? 0 : EIO);
}

fuse_lowlevel_ops operations() {
  fuse_lowlevel_ops ops = {};
  ops.init = ImageFs::operations().init;  // max_background, request sizes, capabilities
  ops.lookup = on_lookup;
  ops.forget = on_forget;
  ops.getattr = on_getattr;
  ops.setattr = on_setattr;
  ops.open = on_open;
  ops.release = on_release;
  ops.read = on_read;
  ops.write = on_write;
  ops.flush = on_flush;
  ops.fsync = on_fsync;
  return ops;
}

UniqueFd take_over_signals() {
  sigset_t ending;
  ::sigemptyset(&ending);
  ::sigaddset(&ending, SIGTERM);
  ::sigaddset(&ending, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  return UniqueFd(::signalfd(-1, &ending, SFD_CLOEXEC));
}

// Until the mount is gone. A signal unmounts, by force where it must.
void serve(const Session& session, const UniqueFd& signals, const std::string& mountpoint) {
  std::array<pollfd, 2> waiting = {{{session.ended_fd(), POLLIN, 0}, {signals.get(), POLLIN, 0}}};
  while (::poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
  }
  if (waiting[0].revents == 0 && !unmount(mountpoint, false)) {
    [[maybe_unused]] const Status forced = unmount(mountpoint, true);
  }
}

Status run(const Options& options) {
  const UniqueFd signals = take_over_signals();
  Server server;
  server.null = options.null;
  server.file.reset(::open(options.file.c_str(), O_RDWR | O_CLOEXEC));
  struct stat attributes = {};
  if (!server.file.valid() || ::fstat(server.file.get(), &attributes) != 0) {
    return fail_errno(errno, "cannot open " + options.file);
  }
  server.size_bytes = attributes.st_size;
  UniqueFd same(::fcntl(server.file.get(), F_DUPFD_CLOEXEC, 0));
  if (!signals.valid() || !same.valid()) {
    return fail_errno(errno, "cannot make a descriptor");
  }
  const auto device =
      make_file_device(std::move(same), 0, static_cast<std::uint64_t>(server.size_bytes));
  Flusher flusher(*device);
  server.flusher = &flusher;
  CRYPTIMG_ASSIGN_OR_RETURN(
      const std::unique_ptr<BufferPool> pool,
      BufferPool::create(options.threads + kSpareBuffers, kRequestBufferBytes));
  server.pool = pool.get();
  if (options.null) {
    // Memory never written is one page of zeros, which the kernel is slower to pin.
    std::vector<MutableBytes> all(options.threads + kSpareBuffers);
    for (MutableBytes& buffer : all) {
      buffer = pool->acquire();
      std::memset(buffer.data(), 1, buffer.size());
    }
    for (const MutableBytes buffer : all) {
      pool->release(buffer);
    }
  }

  SessionOptions mount;
  mount.mountpoint = options.mountpoint;
  mount.source = options.file;
  mount.threads = options.threads;
  CRYPTIMG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::mount(mount, operations(), &server));
  Status started = session->start(*pool);
  if (started) {
    serve(*session, signals, options.mountpoint);
  } else {
    [[maybe_unused]] const Status forced = unmount(options.mountpoint, true);
  }
  constexpr std::chrono::seconds kPatience{10};
  if (!session->stop(kPatience)) {
    std::fputs("plain_server: requests are stuck; ending without them.\n", stderr);
    ::_exit(EXIT_FAILURE);
  }
  return started;
}

bool parse(int count, char** words, Options& options) {
  for (int index = 1; index < count; ++index) {
    const std::string_view word = words[index];
    if (word == "--null") {
      options.null = true;
    } else if (word == "--threads" && index + 1 < count) {
      const std::string_view number = words[++index];
      const auto [end, error] =
          std::from_chars(number.data(), number.data() + number.size(), options.threads);
      if (error != std::errc() || end != number.data() + number.size()) {
        return false;
      }
    } else if (options.file.empty()) {
      options.file = word;
    } else if (options.mountpoint.empty()) {
      options.mountpoint = word;
    } else {
      return false;
    }
  }
  return !options.mountpoint.empty() && options.threads > 0 && options.threads <= kMaxThreads;
}

}  // namespace
}  // namespace cryptimg::bench

int main(int argc, char** argv) {
  cryptimg::bench::Options options;
  if (!cryptimg::bench::parse(argc, argv, options)) {
    std::fputs("usage: plain_server [--null] [--threads N] FILE MOUNTPOINT\n", stderr);
    return EXIT_FAILURE;
  }
  const cryptimg::Status status = cryptimg::bench::run(options);
  if (!status) {
    std::fprintf(stderr, "plain_server: %s.\n", status.error().message.c_str());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
