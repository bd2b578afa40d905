// SPDX-License-Identifier: GPL-3.0-or-later
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "core/container.h"
#include "core/text.h"
#include "fuse/commands.h"
#include "fuse/create_from.h"
#include "fuse/detached.h"
#include "fuse/passphrase.h"
#include "fuse/sizes.h"

namespace cryptimg {
namespace {

void warn(const std::string& sentence) {
  std::fprintf(stderr, "cryptimg: warning: %s.\n", printable(sentence).c_str());
}

bool is_block_device(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
}

// Before anything else is said of it: --force would not help.
Status check_kind(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    return fail(Errc::unsupported, path + " is neither a regular file nor a block device");
  }
  return {};
}

// What can be told before the passphrase is asked for; create_container checks it all again.
Status check_place(const std::string& path, bool force) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!force) {
      return fail(Errc::exists, path + " exists; --force overwrites it");
    }
    return {};
  }
  if (errno != ENOENT) {
    return fail_errno(errno, "cannot create " + path);
  }
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty() && ::stat(parent.c_str(), &status) != 0) {
    return fail_errno(errno, "cannot create " + path);
  }
  return {};
}

// The key file must not be what is overwritten, under whatever name: the container would be made,
// and the only key to it gone.
Status check_key_file(const CreateCommandOptions& options) {
  struct stat key {};
  if (!options.key_file ||
      (*options.key_file == "-" ? ::fstat(STDIN_FILENO, &key)
                                : ::stat(options.key_file->c_str(), &key)) != 0) {
    return {};
  }
  const auto is_key = [&](const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 &&
           ((status.st_dev == key.st_dev && status.st_ino == key.st_ino) ||
            (S_ISBLK(status.st_mode) && S_ISBLK(key.st_mode) && status.st_rdev == key.st_rdev));
  };
  for (const auto& path : {std::optional(options.create.container), options.create.header}) {
    if (path && is_key(*path)) {
      return fail(
          Errc::invalid_argument,
          *path + " is the key file itself, which would be overwritten: choose another name");
    }
  }
  return {};
}

Status check_not_own_source(const PlainSource& source, const std::string& container) {
  struct stat from {};
  struct stat to {};
  if (::fstat(source.file.get(), &from) == 0 && ::stat(container.c_str(), &to) == 0 &&
      ((from.st_dev == to.st_dev && from.st_ino == to.st_ino) ||
       (S_ISBLK(from.st_mode) && S_ISBLK(to.st_mode) && from.st_rdev == to.st_rdev))) {
    return fail(Errc::invalid_argument,
                container + " cannot be encrypted into itself: choose another name");
  }
  return {};
}

Result<Secret> get_passphrase(const CreateCommandOptions& options) {
  if (!options.key_file) {
    return read_passphrase("Enter passphrase for " + printable(options.create.container) + ": ",
                           true);
  }
  std::string warning;
  auto content = read_key_file(*options.key_file, warning);
  if (!warning.empty()) {
    warn(warning);
  }
  return content;
}

// The source of --from, if any, and the size that follows from it.
Result<std::optional<PlainSource>> prepare_source(const std::optional<std::string>& from,
                                                  CreateOptions& create, bool is_device) {
  if (!from) {
    if (create.size_bytes == 0 && !is_device) {
      return fail(Errc::invalid_argument,
                  "--size is missing: give the size of the decrypted image, such as --size 1G");
    }
    return std::optional<PlainSource>();
  }
  if (create.header) {
    return fail(Errc::invalid_argument, "--from and --header exclude each other");
  }
  CRYPTIMG_ASSIGN_OR_RETURN(PlainSource source, open_source(*from));
  CRYPTIMG_RETURN_IF_ERROR(check_not_own_source(source, create.container));
  if (create.size_bytes == 0 && !is_device) {
    create.size_bytes = source.size_bytes;
  }
  if (create.size_bytes != 0 && create.size_bytes < source.size_bytes) {
    return fail(Errc::invalid_argument,
                *from + " has " + size_text(source.size_bytes) + ", more than --size");
  }
  return std::optional<PlainSource>(std::move(source));
}

void print_result(const CreateOptions& create, const CreatePlan& plan) {
  std::uint64_t image_bytes = plan.image_size_bytes;
  OpenOptions open_options;
  open_options.container = create.container;
  open_options.header = create.header;
  open_options.read_only = true;
  std::string layout;
  if (const auto info = Container::inspect(open_options)) {
    image_bytes = info->image_size_bytes;
    layout = ", data from byte " + std::to_string(info->data_offset_bytes);
  }
  std::printf("Created %s: %s, %s, %u-bit key, %u-byte sectors, %s\n",
              printable(create.container).c_str(), create.type.c_str(),
              cipher_name(plan.spec).c_str(), plan.spec.key_size_bytes * 8,
              plan.spec.sector_size_bytes, plan.pbkdf.c_str());
  std::printf("Image: %s%s\n", size_text(image_bytes).c_str(), layout.c_str());
  if (plan.size_was_rounded) {
    std::printf("The size was rounded up from %s to whole sectors\n",
                size_text(create.size_bytes).c_str());
  }
}

Result<CreatePlan> create(CreateCommandOptions& options) {
  CreateOptions& create = options.create;
  CRYPTIMG_RETURN_IF_ERROR(check_kind(create.container));
  const bool is_device = is_block_device(create.container);
  CRYPTIMG_ASSIGN_OR_RETURN(const std::optional<PlainSource> source,
                            prepare_source(options.from, create, is_device));
  CRYPTIMG_ASSIGN_OR_RETURN(const CreatePlan plan, check_create_options(create, is_device));
  if (!is_device) {
    CRYPTIMG_RETURN_IF_ERROR(check_place(create.container, create.force));
  }
  CRYPTIMG_RETURN_IF_ERROR(check_key_file(options));
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret passphrase, get_passphrase(options));
  if (passphrase.empty()) {
    warn("the passphrase is empty: anyone can open the container");
  }
  std::vector<std::string> warnings;
  const Status created = source ? create_container_from(create, *source, passphrase, warnings)
                                : create_container(create, passphrase, warnings);
  if (!created) {
    return tl::unexpected(say_where_mounted(created.error(), create.container));
  }
  for (const std::string& warning : warnings) {
    warn(warning);
  }
  return plan;
}

}  // namespace

ExitCode run_create(const CreateCommandOptions& options) {
  CreateCommandOptions resolved = options;
  const auto plan = create(resolved);
  if (!plan) {
    return report(plan.error());
  }
  print_result(resolved.create, *plan);
  return ExitCode::ok;
}

}  // namespace cryptimg
