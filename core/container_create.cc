// SPDX-License-Identifier: GPL-3.0-or-later
//
// `create`: everything is looked at first, then the header is made in memory, then files are
// written without their names, and last they get them.
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/container.h"
#include "core/container_file.h"
#include "core/luks_format.h"
#include "core/new_file.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A name the user gave, and what is there now.
struct Target {
  std::string
      path;  // symlinks resolved where it exists, so that --force replaces what they lead to
  bool exists = false;
  bool is_device = false;
  dev_t device_id = 0;
  ino_t inode = 0;
  ContainerFile held;  // with --force: what is overwritten, locked until it has been
};

tl::unexpected<Error> exists_already(const std::string& path) {
  return fail(Errc::exists,
              path + " exists already: choose another name, or --force to overwrite it");
}

Result<Target> look_at(const std::string& path) {
  Target target;
  target.path = path;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) {
      return fail_errno(errno, "cannot examine " + path);
    }
    return target;
  }
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return fail(Errc::unsupported, path + " is neither a regular file nor a block device");
  }
  target.exists = true;
  target.is_device = S_ISBLK(info.st_mode);
  target.device_id = info.st_dev;
  target.inode = info.st_ino;
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  if (resolved == nullptr) {
    return fail_errno(errno, "cannot examine " + path);
  }
  target.path = resolved.get();
  return target;
}

// Holds what is to be overwritten, so that no mount begins meanwhile. busy where one has it.
Status hold(Target& target) {
  CRYPTIMG_ASSIGN_OR_RETURN(target.held, open_container_file(target.path, FileAccess::exclusive));
  return lock_container_file(target.held, target.path, FileAccess::exclusive);
}

Status copy_range(int source, int target, std::uint64_t begin_bytes, std::uint64_t end_bytes,
                  const std::string& path) {
  std::vector<std::byte> buffer(kMiB);
  while (begin_bytes < end_bytes) {
    const std::size_t length = std::min<std::uint64_t>(kMiB, end_bytes - begin_bytes);
    CRYPTIMG_RETURN_IF_ERROR(read_exactly(source, buffer.data(), length, begin_bytes));
    Status written = write_exactly(target, buffer.data(), length, begin_bytes);
    if (!written) {
      written.error().message = "cannot write " + path + ": " + written.error().message;
      return written;
    }
    begin_bytes += length;
  }
  return {};
}

Status reserve(const NewFile& file, std::uint64_t size_bytes, const std::string& path) {
  int code = 0;
  do {
    code = ::fallocate(file.fd(), 0, 0, static_cast<off_t>(size_bytes));
  } while (code != 0 && errno == EINTR);
  if (code == 0) {
    return {};
  }
  if (errno == EOPNOTSUPP || errno == ENOSYS) {
    return fail(Errc::unsupported,
                "the file system of " + path + " cannot reserve space: leave --preallocate out",
                errno);
  }
  return fail_errno(errno, "cannot reserve " + std::to_string(size_bytes) + " bytes for " + path);
}

// `needed_bytes` are written now, `promised_bytes` may be written later into the sparse rest.
Status check_space(const NewFile& file, const std::string& path, std::uint64_t needed_bytes,
                   std::uint64_t promised_bytes, std::vector<std::string>& warnings) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, file.free_bytes());
  if (free_bytes < needed_bytes) {
    return fail(Errc::no_space,
                path + " needs " + std::to_string(needed_bytes) +
                    " bytes, but its file system has only " + std::to_string(free_bytes) + " free",
                ENOSPC);
  }
  if (free_bytes - needed_bytes < promised_bytes) {
    warnings.push_back("the file system of " + path + " has only " + std::to_string(free_bytes) +
                       " bytes free: writing will fail before the image's " +
                       std::to_string(promised_bytes) + " bytes are full");
  }
  return {};
}

Status set_size(const NewFile& file, std::uint64_t size_bytes, const std::string& path) {
  if (::ftruncate(file.fd(), static_cast<off_t>(size_bytes)) != 0) {
    return errno == EFBIG ? fail(Errc::no_space,
                                 "the file system of " + path + " cannot hold a file of " +
                                     std::to_string(size_bytes) + " bytes: choose a smaller --size",
                                 EFBIG)
                          : fail_errno(errno, "cannot make " + path + " " +
                                                  std::to_string(size_bytes) + " bytes long");
  }
  return {};
}

Result<bool> reads_as_zeros(const ContainerFile& device, std::uint64_t begin_bytes,
                            std::uint64_t end_bytes) {
  std::vector<std::byte> buffer(end_bytes - begin_bytes);
  CRYPTIMG_RETURN_IF_ERROR(
      read_exactly(device.fd.get(), buffer.data(), buffer.size(), begin_bytes));
  return std::all_of(buffer.begin(), buffer.end(), [](std::byte b) { return b == std::byte{0}; });
}

// File systems, partition tables, RAID and volume managers leave their marks in the first or the
// last MiB; anything at all that is not zero there counts as a signature.
Status check_device_unused(const ContainerFile& device, const std::string& path) {
  const std::uint64_t size = device.size_bytes;
  CRYPTIMG_ASSIGN_OR_RETURN(const bool start_is_free,
                            reads_as_zeros(device, 0, std::min(size, kMiB)));
  CRYPTIMG_ASSIGN_OR_RETURN(const bool end_is_free,
                            reads_as_zeros(device, size - std::min(size, kMiB), size));
  if (!start_is_free || !end_is_free) {
    return fail(Errc::exists, path +
                                  " carries data (its first or last MiB is not zero): --force "
                                  "overwrites it");
  }
  return {};
}

// Fits the plan to the device: its size, and unless asked for otherwise a sector size that divides
// it, since cryptsetup refuses to open a device with a torn last sector.
Status fit_plan(const CreateOptions& options, const ContainerFile& device,
                std::uint64_t data_offset_bytes, CreatePlan& plan) {
  std::uint32_t& sector = plan.spec.sector_size_bytes;
  while (!options.sector_size_bytes && sector > kIvUnitBytes && device.size_bytes % sector != 0) {
    sector /= 2;
  }
  if (device.size_bytes % sector != 0) {
    return fail(Errc::invalid_argument, "--sector-size " + std::to_string(sector) +
                                            " does not divide the size of " + options.container +
                                            ", " + std::to_string(device.size_bytes) + " bytes");
  }
  if (device.size_bytes < data_offset_bytes || device.size_bytes - data_offset_bytes < sector) {
    return fail(Errc::no_space, options.container + " is too small: the header takes " +
                                    std::to_string(data_offset_bytes) + " of its " +
                                    std::to_string(device.size_bytes) + " bytes");
  }
  plan.image_size_bytes = device.size_bytes - data_offset_bytes;
  return {};
}

// The first 4 KiB, which make it a container, go last; behind --force the marks at the end go too.
Status write_device_header(const FormattedHeader& header, const ContainerFile& device,
                           const std::string& path, bool clear_end) {
  constexpr std::uint64_t kFirstBlockBytes = 4096;
  const int fd = device.fd.get();
  if (clear_end) {
    const std::uint64_t begin =
        std::max(header.size_bytes, device.size_bytes - std::min(device.size_bytes, kMiB));
    const std::vector<std::byte> zeros(device.size_bytes - begin);
    CRYPTIMG_RETURN_IF_ERROR(write_exactly(fd, zeros.data(), zeros.size(), begin));
  }
  CRYPTIMG_RETURN_IF_ERROR(
      copy_range(header.memory.get(), fd, kFirstBlockBytes, header.size_bytes, path));
  if (::fsync(fd) != 0) {
    return fail_errno(errno, "cannot write " + path);
  }
  CRYPTIMG_RETURN_IF_ERROR(copy_range(header.memory.get(), fd, 0, kFirstBlockBytes, path));
  return ::fsync(fd) == 0 ? Status() : fail_errno(errno, "cannot write " + path);
}

// The data's regular file, complete but without its name.
Result<NewFile> prepare_data(const CreateOptions& options, const CreatePlan& plan,
                             const Target& target, std::uint64_t data_offset_bytes,
                             std::vector<std::string>& warnings) {
  CRYPTIMG_ASSIGN_OR_RETURN(NewFile file, NewFile::create(target.path));
  if (!file.is_private()) {
    warnings.push_back("the file system of " + target.path +
                       " keeps no permissions: others may be able to read the container");
  }
  const std::uint64_t total = data_offset_bytes + plan.image_size_bytes;
  CRYPTIMG_RETURN_IF_ERROR(check_space(file, target.path,
                                       options.preallocate ? total : data_offset_bytes,
                                       options.preallocate ? 0 : plan.image_size_bytes, warnings));
  CRYPTIMG_RETURN_IF_ERROR(set_size(file, total, target.path));
  if (options.preallocate) {
    CRYPTIMG_RETURN_IF_ERROR(reserve(file, total, target.path));
  }
  return file;
}

Status create_attached(const CreateOptions& options, CreatePlan plan, Target& target,
                       const Secret& passphrase, std::vector<std::string>& warnings) {
  const std::uint64_t offset = header_size_bytes(options);
  if (target.is_device) {
    CRYPTIMG_RETURN_IF_ERROR(fit_plan(options, target.held, offset, plan));
    CRYPTIMG_ASSIGN_OR_RETURN(const FormattedHeader header,
                              format_header(options, plan, passphrase));
    return write_device_header(header, target.held, target.path, options.force);
  }
  CRYPTIMG_ASSIGN_OR_RETURN(NewFile file, prepare_data(options, plan, target, offset, warnings));
  CRYPTIMG_ASSIGN_OR_RETURN(const FormattedHeader header, format_header(options, plan, passphrase));
  CRYPTIMG_RETURN_IF_ERROR(
      copy_range(header.memory.get(), file.fd(), 0, header.size_bytes, target.path));
  return file.commit(options.force);
}

Status create_detached(const CreateOptions& options, CreatePlan plan, const Target& target,
                       const Target& header_target, const Secret& passphrase,
                       std::vector<std::string>& warnings) {
  std::optional<NewFile> data;
  if (target.is_device) {
    CRYPTIMG_RETURN_IF_ERROR(fit_plan(options, target.held, 0, plan));
  } else {
    CRYPTIMG_ASSIGN_OR_RETURN(NewFile file, prepare_data(options, plan, target, 0, warnings));
    data.emplace(std::move(file));
  }
  CRYPTIMG_ASSIGN_OR_RETURN(NewFile header_file, NewFile::create(header_target.path));
  CRYPTIMG_RETURN_IF_ERROR(
      check_space(header_file, header_target.path, header_size_bytes(options), 0, warnings));
  CRYPTIMG_ASSIGN_OR_RETURN(const FormattedHeader header, format_header(options, plan, passphrase));
  CRYPTIMG_RETURN_IF_ERROR(
      copy_range(header.memory.get(), header_file.fd(), 0, header.size_bytes, header_target.path));
  CRYPTIMG_RETURN_IF_ERROR(header_file.commit(options.force));
  if (data) {
    Status committed = data->commit(options.force);
    if (!committed) {
      header_file.remove_committed();
      return committed;
    }
  }
  return {};
}

}  // namespace

Status create_container(const CreateOptions& options, const Secret& passphrase,
                        std::vector<std::string>& warnings) {
  CRYPTIMG_ASSIGN_OR_RETURN(Target target, look_at(options.container));
  CRYPTIMG_ASSIGN_OR_RETURN(const CreatePlan plan, check_create_options(options, target.is_device));
  if (target.exists && !target.is_device && !options.force) {
    return exists_already(options.container);
  }
  if (target.exists) {
    CRYPTIMG_RETURN_IF_ERROR(hold(target));
  }
  if (target.is_device && !options.force) {
    CRYPTIMG_RETURN_IF_ERROR(check_device_unused(target.held, target.path));
  }
  if (!options.header) {
    return create_attached(options, plan, target, passphrase, warnings);
  }
  CRYPTIMG_ASSIGN_OR_RETURN(Target header_target, look_at(*options.header));
  if (header_target.is_device) {
    return fail(Errc::unsupported, "the detached header has to be a regular file");
  }
  if (header_target.exists && !options.force) {
    return exists_already(*options.header);
  }
  const bool one_file = target.exists && header_target.exists &&
                        target.device_id == header_target.device_id &&
                        target.inode == header_target.inode;
  if (one_file || header_target.path == target.path) {
    return fail(Errc::invalid_argument, "container and detached header are the same file");
  }
  if (header_target.exists) {
    CRYPTIMG_RETURN_IF_ERROR(hold(header_target));
  }
  return create_detached(options, plan, target, header_target, passphrase, warnings);
}

}  // namespace cryptimg
