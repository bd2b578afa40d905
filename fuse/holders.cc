// SPDX-License-Identifier: GPL-3.0-or-later
//
// find_holders() of mount_table.h: who keeps a mount busy. Asks /proc and /sys only, never the
// mounted file system itself, which may be stalled.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "fuse/mount_table.h"

namespace cryptimg {
namespace {

namespace fs = std::filesystem;

// The entries of a directory, none where it cannot be read (another user's process, or one that
// has just ended).
std::vector<fs::path> entries_of(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  while (!error && entry != fs::directory_iterator()) {
    entries.push_back(entry->path());
    entry.increment(error);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::string link_target(const fs::path& link) {
  std::array<char, 4096> target;
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string first_line(const fs::path& file) {
  const auto text = read_proc_file(file.string());
  return text ? text->substr(0, text->find('\n')) : std::string();
}

bool is_under(std::string_view path, const std::string& mountpoint) {
  return path.substr(0, mountpoint.size()) == mountpoint &&
         (path.size() == mountpoint.size() || path[mountpoint.size()] == '/' ||
          path.substr(mountpoint.size()) == " (deleted)");
}

bool holds_descriptor(const fs::path& process, const MountEntry& mount) {
  const std::string wanted = "mnt_id:\t" + std::to_string(mount.mount_id) + "\n";
  for (const fs::path& descriptor : entries_of(process / "fd")) {
    if (is_under(link_target(descriptor), mount.mountpoint)) {
      return true;
    }
    const auto info = read_proc_file((process / "fdinfo" / descriptor.filename()).string());
    if (info && info->find(wanted) != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool holds_mapping(const fs::path& process, const MountEntry& mount) {
  std::array<char, 32> device{};
  std::snprintf(device.data(), device.size(), " %02x:%02x ", mount.device_major,
                mount.device_minor);
  const auto maps = read_proc_file((process / "maps").string());
  return maps && maps->find(device.data()) != std::string::npos;
}

void add_processes(const MountEntry& mount, std::vector<std::string>& holders) {
  const std::string self = std::to_string(::getpid());
  for (const fs::path& process : entries_of("/proc")) {
    const std::string number = process.filename().string();
    if (number.find_first_not_of("0123456789") != std::string::npos || number == self) {
      continue;
    }
    const bool held = is_under(link_target(process / "cwd"), mount.mountpoint) ||
                      is_under(link_target(process / "root"), mount.mountpoint) ||
                      is_under(link_target(process / "exe"), mount.mountpoint) ||
                      holds_descriptor(process, mount) || holds_mapping(process, mount);
    if (held) {
      holders.push_back("process " + number + " (" + first_line(process / "comm") + ")");
    }
  }
}

// The device numbers ("7:3") of a disk and its partitions.
std::vector<std::string> devices_of(const fs::path& disk) {
  std::vector<std::string> numbers = {first_line(disk / "dev")};
  for (const fs::path& entry : entries_of(disk)) {
    std::error_code error;
    if (fs::exists(entry / "partition", error)) {
      numbers.push_back(first_line(entry / "dev"));
    }
  }
  return numbers;
}

std::string loop_phrase(const fs::path& disk, const std::vector<MountEntry>& mounts) {
  const std::string name = "/dev/" + disk.filename().string();
  const std::vector<std::string> numbers = devices_of(disk);
  std::string used_by;
  const auto add = [&](const std::string& what) {
    used_by += (used_by.empty() ? "" : ", ") + what;
  };
  for (const MountEntry& mount : mounts) {
    const std::string number =
        std::to_string(mount.device_major) + ":" + std::to_string(mount.device_minor);
    const std::string_view rest =
        std::string_view(mount.container).substr(std::min(name.size(), mount.container.size()));
    const bool named =
        mount.container.compare(0, name.size(), name) == 0 && (rest.empty() || rest.front() == 'p');
    if (named || std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
      add("mounted on " + mount.mountpoint);
    }
  }
  for (const fs::path& holder : entries_of(disk / "holders")) {
    add("used by /dev/" + holder.filename().string());
  }
  return "loop device " + name + (used_by.empty() ? "" : " (" + used_by + ")");
}

}  // namespace

std::vector<std::string> find_holders(const MountEntry& mount) {
  std::vector<std::string> holders;
  add_processes(mount, holders);
  const auto text = read_proc_file("/proc/self/mountinfo");
  const std::vector<MountEntry> mounts = text ? parse_all_mounts(*text) : std::vector<MountEntry>();
  for (const fs::path& disk : entries_of("/sys/block")) {
    if (disk.filename().string().compare(0, 4, "loop") == 0 &&
        is_under(first_line(disk / "loop" / "backing_file"), mount.mountpoint)) {
      holders.push_back(loop_phrase(disk, mounts));
    }
  }
  for (const MountEntry& other : mounts) {
    if (other.mount_id != mount.mount_id && other.mountpoint != mount.mountpoint &&
        is_under(other.mountpoint, mount.mountpoint)) {
      holders.push_back("mount on " + other.mountpoint);
    }
  }
  return holders;
}

}  // namespace cryptimg
