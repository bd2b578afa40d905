// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/new_file.h"

#include <array>
#include <cstdio>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/container_file.h"

namespace cryptimg {
namespace {

constexpr int kNameTries = 100;
constexpr mode_t kMode = 0600;

// Independent of the final name, which may be as long as a name can be.
std::string random_name() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, 8> bytes = {};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    bytes.fill(0);  // only the number of tries suffers
  }
  std::string name = ".cryptimg-";
  for (const unsigned char byte : bytes) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

}  // namespace

NewFile::NewFile(NewFile&& other) noexcept
    : directory_(std::move(other.directory_)),
      fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      name_(std::move(other.name_)),
      temporary_name_(std::exchange(other.temporary_name_, {})) {}

NewFile::~NewFile() {
  if (!temporary_name_.empty()) {
    ::unlinkat(directory_.get(), temporary_name_.c_str(), 0);
  }
}

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile file;
  file.path_ = path;
  const std::size_t slash = path.rfind('/');
  const std::string directory =
      slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  file.name_ = slash == std::string::npos ? path : path.substr(slash + 1);
  if (file.name_.empty() || file.name_ == "." || file.name_ == "..") {
    return fail(Errc::invalid_argument, "\"" + path + "\" is no file name");
  }
  file.directory_.reset(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.directory_.valid()) {
    return fail_errno(errno, "cannot open the directory of " + path);
  }
  file.fd_.reset(::openat(file.directory_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, kMode));
  for (int attempt = 0; !file.fd_.valid() && attempt < kNameTries; ++attempt) {
    // Without O_TMPFILE it fails with EOPNOTSUPP, EISDIR or EINVAL; anything else comes again here.
    std::string name = random_name();
    file.fd_.reset(::openat(file.directory_.get(), name.c_str(),
                            O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, kMode));
    if (file.fd_.valid()) {
      file.temporary_name_ = std::move(name);
    } else if (errno != EEXIST) {
      break;
    }
  }
  if (!file.fd_.valid()) {
    return fail_errno(errno, "cannot create " + path);
  }
  // The umask may have taken bits away. A file system without modes (vfat) says EPERM.
  if (::fchmod(file.fd_.get(), kMode) != 0 && errno != EPERM && errno != EOPNOTSUPP) {
    return fail_errno(errno, "cannot set the permissions of " + path);
  }
  return file;
}

Result<std::uint64_t> NewFile::free_bytes() const {
  struct statvfs info = {};
  if (::fstatvfs(fd_.get(), &info) != 0) {
    return fail_errno(errno, "cannot tell the free space for " + path_);
  }
  return checked_mul<std::uint64_t>(info.f_bavail, info.f_frsize)
      .value_or(std::numeric_limits<std::uint64_t>::max());
}

bool NewFile::is_private() const {
  struct stat info = {};
  return ::fstat(fd_.get(), &info) == 0 && (info.st_mode & 07777) == kMode;
}

Status NewFile::commit(bool replace) {
  if (::fsync(fd_.get()) != 0) {
    return fail_errno(errno, "cannot write " + path_);
  }
  CRYPTIMG_RETURN_IF_ERROR(give_name(replace));
  if (::fsync(directory_.get()) != 0 && errno != EINVAL && errno != EROFS) {
    const int error = errno;
    remove_committed();
    return fail_errno(error, "cannot write the directory of " + path_);
  }
  return {};
}

Status NewFile::give_name(bool replace) {
  if (temporary_name_.empty()) {
    if (!replace) {
      if (::linkat(AT_FDCWD, proc_path(fd_.get()).c_str(), directory_.get(), name_.c_str(),
                   AT_SYMLINK_FOLLOW) != 0) {
        return tl::unexpected(name_failure(errno));
      }
      return {};
    }
    CRYPTIMG_RETURN_IF_ERROR(link_temporary());
  }
  const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
  int code = ::renameat2(directory_.get(), temporary_name_.c_str(), directory_.get(), name_.c_str(),
                         flags);
  if (code != 0 && !replace && (errno == EINVAL || errno == ENOSYS)) {
    // A file system without RENAME_NOREPLACE: a hard link does not replace either; the temporary
    // name then goes away with this object.
    code = ::linkat(directory_.get(), temporary_name_.c_str(), directory_.get(), name_.c_str(), 0);
    return code == 0 ? Status() : tl::unexpected(name_failure(errno));
  }
  if (code != 0) {
    return tl::unexpected(name_failure(errno));
  }
  temporary_name_.clear();
  return {};
}

Status NewFile::link_temporary() {
  for (int attempt = 0; attempt < kNameTries; ++attempt) {
    const std::string name = random_name();
    if (::linkat(AT_FDCWD, proc_path(fd_.get()).c_str(), directory_.get(), name.c_str(),
                 AT_SYMLINK_FOLLOW) == 0) {
      temporary_name_ = name;
      return {};
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return fail_errno(errno, "cannot create " + path_);
}

Error NewFile::name_failure(int os_errno) const {
  if (os_errno == EEXIST) {
    return {Errc::exists, os_errno,
            path_ + " exists already: choose another name, or --force to overwrite it"};
  }
  return fail_errno(os_errno, "cannot create " + path_).value();
}

void NewFile::remove_committed() {
  struct stat ours = {};
  struct stat named = {};
  // Only if the name still is this file.
  if (::fstat(fd_.get(), &ours) == 0 &&
      ::fstatat(directory_.get(), name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
      ours.st_dev == named.st_dev && ours.st_ino == named.st_ino) {
    ::unlinkat(directory_.get(), name_.c_str(), 0);
  }
}

}  // namespace cryptimg
