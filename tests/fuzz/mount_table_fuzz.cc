// SPDX-License-Identifier: GPL-3.0-or-later
//
// The mount table and control groups, in which other users' names stand. Input: a text as in
// /proc/self/mountinfo; and, up to its first two newlines, a container and a mount point that come
// back from a line made of them.
#include <string>

#include "core/kdf_limits.h"
#include "fuse/mount_table.h"
#include "tests/fuzz/fuzz.h"

namespace {

// As the kernel writes names in that file.
std::string escaped(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\\') {
      const auto value = static_cast<unsigned char>(c);
      text += {'\\', static_cast<char>('0' + value / 64), static_cast<char>('0' + value / 8 % 8),
               static_cast<char>('0' + value % 8)};
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg;
  static fuzz::Reach reach{"entry", "no entry", "name came back"};
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto ours = parse_mountinfo(text);
  const auto all = parse_all_mounts(text);
  reach.at(ours.empty() ? "no entry" : "entry");
  FUZZ_CHECK(ours.size() <= all.size());
  for (const MountEntry& entry : ours) {
    FUZZ_CHECK(entry.type == "fuse.cryptimg");
  }
  FUZZ_CHECK(cgroup_memory_limit_bytes(text, text, "/nonexistent") == UINT64_MAX);

  const std::size_t first = std::min(text.find('\n'), text.size());
  const std::size_t second = std::min(text.find('\n', first + 1), text.size());
  const std::string container = "/" + text.substr(0, first);
  const std::string mountpoint =
      "/" + (first < text.size() ? text.substr(first + 1, second - first - 1) : "");
  if ((container + mountpoint).find('\0') != std::string::npos) {
    return 0;
  }
  const auto back = parse_mountinfo("70 23 0:52 / " + escaped(mountpoint) +
                                    " rw,nosuid,nodev shared:9 - fuse.cryptimg " +
                                    escaped(container) + " rw,user_id=7,group_id=0\n");
  FUZZ_CHECK(back.size() == 1);
  FUZZ_CHECK(back[0].container == container && back[0].mountpoint == mountpoint);
  FUZZ_CHECK(back[0].owner == 7 && back[0].device_minor == 52 && !back[0].read_only);
  reach.at("name came back");
  return 0;
}
