// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_table.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "core/unique_fd.h"
#include "fuse/control.h"

namespace cryptimg {
namespace {

constexpr std::string_view kType = "fuse.cryptimg";

template <typename T>
bool parse_decimal(std::string_view text, T& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc{} && stop == end;
}

// Undoes the kernel's mangling (fs/seq_file.c): three octal digits after a backslash.
std::string unescape(std::string_view text) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(text[i + 1]) && octal(text[i + 2]) &&
        octal(text[i + 3])) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// proc(5): ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS
std::optional<MountEntry> parse_line(std::string_view line) {
  const auto fields = split(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  const auto before = static_cast<std::size_t>(dash - fields.begin());
  if (before < 6 || fields.size() < before + 4) {
    return std::nullopt;
  }
  MountEntry entry;
  const auto device = split(fields[2], ':');
  if (!parse_decimal(fields[0], entry.mount_id) || device.size() != 2 ||
      !parse_decimal(device[0], entry.device_major) ||
      !parse_decimal(device[1], entry.device_minor)) {
    return std::nullopt;
  }
  entry.mountpoint = unescape(fields[4]);
  entry.type = unescape(fields[before + 1]);
  entry.container = unescape(fields[before + 2]);
  entry.options = std::string(fields[5]) + "," + std::string(fields[before + 3]);
  for (const std::string_view option : split(entry.options, ',')) {
    constexpr std::string_view kOwner = "user_id=";
    if (option == "ro") {
      entry.read_only = true;
    } else if (option.substr(0, kOwner.size()) == kOwner &&
               !parse_decimal(option.substr(kOwner.size()), entry.owner)) {
      return std::nullopt;
    }
  }
  return entry;
}

// The spellings of `target` a mount table may hold, the ones that ask no file system first: a
// dead or stalled mount must still be found.
std::vector<std::string> spellings(const std::string& target) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> found;
  fs::path plain = fs::absolute(target, error).lexically_normal();
  if (!error) {
    if (!plain.has_filename() && plain.has_parent_path()) {
      plain = plain.parent_path();
    }
    found.push_back(plain.string());
    const fs::path parent = fs::canonical(plain.parent_path(), error);
    if (!error) {
      found.push_back((parent / plain.filename()).string());
    }
  }
  return found;
}

std::vector<MountEntry> at_path(const std::vector<MountEntry>& mounts, const std::string& path) {
  std::vector<MountEntry> found;
  for (const char* file : {"", "/image"}) {
    std::copy_if(mounts.begin(), mounts.end(), std::back_inserter(found),
                 [&](const MountEntry& entry) { return path == entry.mountpoint + file; });
    // An image can be a mount point itself, and then that is meant.
    if (!found.empty()) {
      break;
    }
  }
  return found;
}

bool same_file(const struct stat& a, const struct stat& b) {
  return (a.st_dev == b.st_dev && a.st_ino == b.st_ino) ||
         (S_ISBLK(a.st_mode) && S_ISBLK(b.st_mode) && a.st_rdev == b.st_rdev);
}

}  // namespace

std::vector<MountEntry> parse_all_mounts(std::string_view text) {
  std::vector<MountEntry> entries;
  for (const std::string_view line : split(text, '\n')) {
    if (auto entry = parse_line(line)) {
      entries.push_back(std::move(*entry));
    }
  }
  return entries;
}

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  std::vector<MountEntry> entries = parse_all_mounts(text);
  std::erase_if(entries, [](const MountEntry& entry) { return entry.type != kType; });
  return entries;
}

Result<std::string> read_proc_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return fail_errno(errno, "cannot open " + path);
  }
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got == 0) {
      return text;
    }
    if (got < 0 && errno != EINTR) {
      return fail_errno(errno, "cannot read " + path);
    }
    if (got > 0) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
  }
}

bool is_dead(const MountEntry& mount) {
  if (ControlClient::connect(mount.device_major, mount.device_minor, mount.owner)) {
    return false;
  }
  struct stat status {};
  return ::stat(mount.mountpoint.c_str(), &status) != 0 && errno == ENOTCONN;
}

std::string image_path(const MountEntry& mount) {
  struct stat status {};
  const bool is_folder = ::stat(mount.mountpoint.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  return mount.mountpoint + (is_folder ? "/image" : "");
}

Result<std::vector<MountEntry>> list_mounts() {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::string text, read_proc_file("/proc/self/mountinfo"));
  return parse_mountinfo(text);
}

std::vector<MountEntry> find_mounts(const std::vector<MountEntry>& mounts,
                                    const std::string& target) {
  const std::vector<std::string> paths = spellings(target);
  for (const std::string& path : paths) {
    if (auto found = at_path(mounts, path); !found.empty()) {
      return found;
    }
  }
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(target.c_str(), nullptr),
                                                             &std::free);
  if (resolved) {
    if (auto found = at_path(mounts, resolved.get()); !found.empty()) {
      return found;
    }
  }
  return mounts_of_container(mounts, target);
}

std::vector<MountEntry> mounts_of_container(const std::vector<MountEntry>& mounts,
                                            const std::string& container) {
  const std::vector<std::string> paths = spellings(container);
  struct stat wanted {};
  const bool exists = ::stat(container.c_str(), &wanted) == 0;
  std::vector<MountEntry> found;
  for (const MountEntry& entry : mounts) {
    struct stat served {};
    if (std::find(paths.begin(), paths.end(), entry.container) != paths.end() ||
        (exists && ::stat(entry.container.c_str(), &served) == 0 && same_file(wanted, served))) {
      found.push_back(entry);
    }
  }
  return found;
}

}  // namespace cryptimg
