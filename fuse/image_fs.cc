// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/image_fs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fuse/session.h"

namespace cryptimg {
namespace {

constexpr fuse_ino_t kImageInode = 2;  // where the root is a folder
constexpr const char* kImageName = "image";
constexpr std::uint32_t kStatBlockBytes = 512;
constexpr std::uint32_t kPageBytes = 4096;
constexpr double kAttributeSeconds = 1.0;
constexpr double kEntrySeconds = 3600.0;  // there is one name, and it stays
constexpr unsigned kMaxBackground = 64;
constexpr unsigned kCongestionThreshold = 48;

ImageFs& fs_of(fuse_req_t request) {
  return *static_cast<ImageFs*>(::fuse_req_userdata(request));
}

ImageFs::Handle& handle_of(const fuse_file_info* info) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel carries it as a number
  return *reinterpret_cast<ImageFs::Handle*>(info->fh);
}

struct stat attributes_of(const ImageFs& fs, fuse_ino_t inode) {
  return fs.is_image(inode) ? fs.image_attributes() : fs.directory_attributes();
}

bool is_read_only(fuse_req_t request) {
  return fs_of(request).image().read_only();
}

void on_init(void* /*user_data*/, fuse_conn_info* connection) {
  // Size 0 for a moment; the cache dropped at each write; errors hidden; copies through pipes.
  connection->want &=
      ~static_cast<unsigned>(FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_AUTO_INVAL_DATA |
                             FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE |
                             FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
  connection->want |= connection->capable & static_cast<unsigned>(FUSE_CAP_ASYNC_DIO);
  connection->max_read = kMaxIoBytes;
  connection->max_write = kMaxIoBytes;
  connection->max_readahead = kMaxIoBytes;
  connection->max_background = kMaxBackground;
  connection->congestion_threshold = kCongestionThreshold;
}

void on_lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const ImageFs& fs = fs_of(request);
  if (fs.is_image(parent)) {
    ::fuse_reply_err(request, ENOTDIR);
    return;
  }
  if (std::string_view(name) != kImageName) {
    ::fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry = {};
  entry.ino = kImageInode;
  entry.generation = 1;
  entry.attr = fs.image_attributes();
  entry.attr_timeout = kAttributeSeconds;
  entry.entry_timeout = kEntrySeconds;
  ::fuse_reply_entry(request, &entry);
}

void on_forget(fuse_req_t request, fuse_ino_t /*inode*/, std::uint64_t /*lookups*/) {
  ::fuse_reply_none(request);
}

void on_forget_multi(fuse_req_t request, std::size_t /*count*/, fuse_forget_data* /*forgets*/) {
  ::fuse_reply_none(request);
}

void on_getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*info*/) {
  const struct stat attributes = attributes_of(fs_of(request), inode);
  ::fuse_reply_attr(request, &attributes, kAttributeSeconds);
}

// Truncation and times are accepted without effect, what would be a lie is refused; the answer
// shows what really is.
int check_setattr(const struct stat& now, const struct stat& wanted, int to_set) {
  constexpr mode_t kPermissions = 07777;
  if ((to_set & FUSE_SET_ATTR_MODE) != 0 &&
      (wanted.st_mode & kPermissions) != (now.st_mode & kPermissions)) {
    return EPERM;
  }
  if (((to_set & FUSE_SET_ATTR_UID) != 0 && wanted.st_uid != now.st_uid) ||
      ((to_set & FUSE_SET_ATTR_GID) != 0 && wanted.st_gid != now.st_gid)) {
    return EPERM;
  }
  if ((to_set & FUSE_SET_ATTR_SIZE) != 0 && wanted.st_size > now.st_size) {
    return EFBIG;
  }
  return 0;
}

void on_setattr(fuse_req_t request, fuse_ino_t inode, struct stat* wanted, int to_set,
                fuse_file_info* /*info*/) {
  if (is_read_only(request)) {
    ::fuse_reply_err(request, EROFS);
    return;
  }
  const struct stat now = attributes_of(fs_of(request), inode);
  if (const int error = check_setattr(now, *wanted, to_set); error != 0) {
    ::fuse_reply_err(request, error);
    return;
  }
  ::fuse_reply_attr(request, &now, kAttributeSeconds);
}

void on_open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  const ImageFs& fs = fs_of(request);
  if (!fs.is_image(inode)) {
    ::fuse_reply_err(request, EISDIR);
    return;
  }
  if ((info->flags & O_ACCMODE) != O_RDONLY && fs.image().read_only()) {
    ::fuse_reply_err(request, EROFS);
    return;
  }
  auto* handle = new (std::nothrow) ImageFs::Handle;
  if (handle == nullptr) {
    ::fuse_reply_err(request, ENOMEM);
    return;
  }
  info->fh = reinterpret_cast<std::uintptr_t>(handle);
  // Locked: an open drops what the kernel has of the image (command_lock.cc relies on it).
  info->keep_cache = fs.image().has_keys() ? 1 : 0;
  // Who cannot write has nothing to flush, and must be able to close while requests are held.
  info->noflush = (info->flags & O_ACCMODE) == O_RDONLY ? 1 : 0;
  // An open that was interrupted meanwhile has no release.
  if (::fuse_reply_open(request, info) != 0) {
    delete handle;
  }
}

void on_release(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* info) {
  delete &handle_of(info);
  ::fuse_reply_err(request, 0);
}

void on_opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) {
  if (fs_of(request).is_image(inode)) {
    ::fuse_reply_err(request, ENOTDIR);
    return;
  }
  ::fuse_reply_open(request, info);
}

void on_readdir(fuse_req_t request, fuse_ino_t /*inode*/, std::size_t size, off_t offset,
                fuse_file_info* /*info*/) {
  const ImageFs& fs = fs_of(request);
  struct Entry {
    const char* name;
    struct stat attributes;
  };
  struct stat image = fs.image_attributes();
  image.st_ino = kImageInode;
  const std::array<Entry, 3> entries = {
      {{".", fs.directory_attributes()}, {"..", fs.directory_attributes()}, {kImageName, image}}};
  std::array<char, 512> listing;
  std::size_t used = 0;
  for (auto index = static_cast<std::size_t>(std::max<off_t>(offset, 0)); index < entries.size();
       ++index) {
    const std::size_t room = std::min(size, listing.size()) - used;
    const std::size_t needs =
        ::fuse_add_direntry(request, listing.data() + used, room, entries[index].name,
                            &entries[index].attributes, static_cast<off_t>(index + 1));
    if (needs > room) {
      break;
    }
    used += needs;
  }
  ::fuse_reply_buf(request, listing.data(), used);
}

void on_statfs(fuse_req_t request, fuse_ino_t /*inode*/) {
  const EncryptedImage& image = fs_of(request).image();
  struct statvfs answer = {};
  answer.f_bsize = image.sector_size_bytes();
  answer.f_frsize = image.sector_size_bytes();
  answer.f_blocks = image.size_bytes() / image.sector_size_bytes();
  answer.f_files = 1;
  answer.f_namemax = 255;
  ::fuse_reply_statfs(request, &answer);
}

void on_access(fuse_req_t request, fuse_ino_t inode, int mask) {
  int error = 0;
  if ((mask & W_OK) != 0 && is_read_only(request)) {
    error = EROFS;
  } else if ((mask & X_OK) != 0 && fs_of(request).is_image(inode)) {
    error = EACCES;
  }
  ::fuse_reply_err(request, error);
}

void on_lseek(fuse_req_t request, fuse_ino_t /*inode*/, off_t offset, int whence,
              fuse_file_info* /*info*/) {
  const auto size = static_cast<off_t>(fs_of(request).image().size_bytes());
  if (whence != SEEK_DATA && whence != SEEK_HOLE) {
    ::fuse_reply_err(request, EINVAL);
  } else if (offset < 0 || offset >= size) {
    ::fuse_reply_err(request, ENXIO);
  } else {
    ::fuse_reply_lseek(request, whence == SEEK_DATA ? offset : size);
  }
}

void refuse_change(fuse_req_t request) {
  ::fuse_reply_err(request, is_read_only(request) ? EROFS : EPERM);
}

// The folder never changes.
void add_refusals(fuse_lowlevel_ops& ops) {
  ops.mknod = [](fuse_req_t request, fuse_ino_t, const char*, mode_t, dev_t) {
    refuse_change(request);
  };
  ops.mkdir = [](fuse_req_t request, fuse_ino_t, const char*, mode_t) { refuse_change(request); };
  ops.unlink = [](fuse_req_t request, fuse_ino_t, const char*) { refuse_change(request); };
  ops.rmdir = [](fuse_req_t request, fuse_ino_t, const char*) { refuse_change(request); };
  ops.symlink = [](fuse_req_t request, const char*, fuse_ino_t, const char*) {
    refuse_change(request);
  };
  ops.rename = [](fuse_req_t request, fuse_ino_t, const char*, fuse_ino_t, const char*, unsigned) {
    refuse_change(request);
  };
  ops.link = [](fuse_req_t request, fuse_ino_t, fuse_ino_t, const char*) {
    refuse_change(request);
  };
  ops.create = [](fuse_req_t request, fuse_ino_t, const char*, mode_t, fuse_file_info*) {
    refuse_change(request);
  };
  ops.readlink = [](fuse_req_t request, fuse_ino_t) { ::fuse_reply_err(request, EINVAL); };
  ops.ioctl = [](fuse_req_t request, fuse_ino_t, auto, void*, fuse_file_info*, unsigned,
                 const void*, std::size_t, std::size_t) { ::fuse_reply_err(request, ENOTTY); };
}

void add_io(fuse_lowlevel_ops& ops) {
  ops.read = [](fuse_req_t request, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info*) {
    fs_of(request).read(request, size, offset);
  };
  ops.write = [](fuse_req_t request, fuse_ino_t, const char* payload, std::size_t size,
                 off_t offset, fuse_file_info* info) {
    fs_of(request).write(request, payload, size, offset, info->flags, handle_of(info));
  };
  ops.flush = [](fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
    fs_of(request).flush(request, handle_of(info));
  };
  ops.fsync = [](fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
    fs_of(request).fsync(request);
  };
  ops.fallocate = [](fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length,
                     fuse_file_info* info) {
    fs_of(request).fallocate(request, mode, offset, length, handle_of(info));
  };
}

}  // namespace

bool ImageFs::is_image(std::uint64_t inode) const {
  return inode == (options_.root_is_image ? fuse_ino_t{FUSE_ROOT_ID} : kImageInode);
}

struct stat ImageFs::directory_attributes() const {
  struct stat attributes = {};
  attributes.st_ino = FUSE_ROOT_ID;
  attributes.st_mode = S_IFDIR | options_.directory_mode;
  attributes.st_nlink = 2;
  attributes.st_uid = options_.uid;
  attributes.st_gid = options_.gid;
  attributes.st_blksize = kPageBytes;
  attributes.st_mtim = image_.modified_time();
  attributes.st_ctim = attributes.st_mtim;
  attributes.st_atim = attributes.st_mtim;
  return attributes;
}

struct stat ImageFs::image_attributes() const {
  struct stat attributes = directory_attributes();
  attributes.st_ino = options_.root_is_image ? fuse_ino_t{FUSE_ROOT_ID} : kImageInode;
  attributes.st_mode = S_IFREG | options_.file_mode;
  attributes.st_nlink = 1;
  attributes.st_size = static_cast<off_t>(image_.size_bytes());
  attributes.st_blocks = static_cast<blkcnt_t>(image_.size_bytes() / kStatBlockBytes);
  attributes.st_blksize = std::max(image_.sector_size_bytes(), kPageBytes);
  return attributes;
}

// No xattr handlers: libfuse then says ENOSYS once, and the kernel answers EOPNOTSUPP by itself
// rather than ask for security.capability before each write.
fuse_lowlevel_ops ImageFs::operations() {
  fuse_lowlevel_ops ops = {};
  ops.init = on_init;
  ops.lookup = on_lookup;
  ops.forget = on_forget;
  ops.forget_multi = on_forget_multi;
  ops.getattr = on_getattr;
  ops.setattr = on_setattr;
  ops.open = on_open;
  ops.release = on_release;
  ops.opendir = on_opendir;
  ops.readdir = on_readdir;
  ops.releasedir = [](fuse_req_t request, fuse_ino_t, fuse_file_info*) {
    ::fuse_reply_err(request, 0);
  };
  ops.fsyncdir = [](fuse_req_t request, fuse_ino_t, int, fuse_file_info*) {
    ::fuse_reply_err(request, 0);
  };
  ops.statfs = on_statfs;
  ops.access = on_access;
  ops.lseek = on_lseek;
  add_io(ops);
  add_refusals(ops);
  return ops;
}

}  // namespace cryptimg
