// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_settings.h"

#include <algorithm>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

namespace cryptimg {
namespace {

constexpr unsigned kMinSessionThreads = 4;
constexpr unsigned kMaxSessionThreads = 16;
constexpr unsigned kSpareBuffers = 2;
// 56 MiB of request buffers at most.
constexpr unsigned kMaxBuffers = 54;

unsigned cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

unsigned session_threads() {
  return std::min(std::max(kMinSessionThreads, cores() + 2), kMaxSessionThreads);
}

std::size_t buffer_count(unsigned workers) {
  return std::min(2 * session_threads() + 2 * workers + kSpareBuffers, kMaxBuffers);
}

ImageOptions image_options(const MountOptions& options, std::uint64_t size_bytes) {
  ImageOptions image;
  image.size_bytes = size_bytes;
  image.read_only = options.read_only;
  image.workers = options.workers.value_or(cores() - 1);
  image.readahead_bytes = options.readahead_bytes;
  image.always_view = options.backing_io == BackingIo::mapped;
  image.max_read_size_bytes = options.max_read_size_bytes;
  image.max_write_size_bytes = options.max_write_size_bytes;
  return image;
}

ImageFsOptions fs_options(const MountOptions& options, bool mountpoint_is_file) {
  constexpr mode_t kPrivate = S_IRWXG | S_IRWXO;
  constexpr mode_t kWrite = S_IWUSR | S_IWGRP | S_IWOTH;
  const mode_t hidden = options.umask.value_or(kPrivate) | (options.read_only ? kWrite : 0U);
  ImageFsOptions result;
  result.root_is_image = mountpoint_is_file;
  result.uid = options.uid.value_or(::geteuid());
  result.gid = options.gid.value_or(::getegid());
  result.file_mode = 0666U & ~hidden;
  result.directory_mode = 0777U & ~hidden;
  result.coalesce = options.coalesce;
  result.max_extent_bytes = options.max_extent_bytes;
  return result;
}

SessionOptions session_options(const MountOptions& options, const std::string& mountpoint,
                               const std::string& container) {
  SessionOptions session;
  session.mountpoint = mountpoint;
  session.source = container;
  session.read_only = options.read_only;
  session.allow_other = options.allow_other;
  session.allow_root = options.allow_root;
  session.default_permissions = options.default_permissions;
  session.threads = session_threads();
  if (options.coalesce) {
    session.batch_end = [](void* fs) { static_cast<ImageFs*>(fs)->work_batch(); };
  }
  return session;
}

}  // namespace cryptimg
