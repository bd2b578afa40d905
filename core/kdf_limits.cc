// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/kdf_limits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "core/bytes.h"
#include "core/text.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

bool lists(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = split(words, ',');
  return std::find(all.begin(), all.end(), word) != all.end();
}

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A limit as the kernel writes it; "max", and whatever is no number, is none.
std::uint64_t limit_in(const std::string& path) {
  const std::string text = whole_file(path);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : kNoLimit;
}

// A mounted hierarchy with the memory controller: which part of it is to be seen, and where.
struct Hierarchy {
  bool is_version_2 = false;
  std::string_view shown;
  std::string_view mountpoint;
};

// From a line of mountinfo: "36 35 98:0 /shown /mountpoint options - type source super-options".
std::optional<Hierarchy> hierarchy_of(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (dash - words.begin() < 5 || words.end() - dash < 4) {
    return std::nullopt;
  }
  const std::string_view type = dash[1];
  if (type == "cgroup2" || (type == "cgroup" && lists(dash[3], "memory"))) {
    return Hierarchy{type == "cgroup2", words[3], words[4]};
  }
  return std::nullopt;
}

// The limits of `group` and of all above it that are to be seen there.
std::uint64_t smallest_limit(const Hierarchy& hierarchy, std::string_view group,
                             const std::string& root) {
  std::string_view below = group;
  if (hierarchy.shown != "/") {
    below = group.substr(0, hierarchy.shown.size()) == hierarchy.shown
                ? group.substr(hierarchy.shown.size())
                : std::string_view();
  }
  if (below.find("..") != std::string_view::npos) {
    below = {};
  }
  const std::string top = root + std::string(hierarchy.mountpoint);
  const char* const file = hierarchy.is_version_2 ? "/memory.max" : "/memory.limit_in_bytes";
  std::uint64_t limit = limit_in(top + file);
  while (!below.empty()) {
    limit = std::min(limit, limit_in(top + std::string(below) + file));
    const std::size_t slash = below.rfind('/');
    below = below.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  return limit;
}

}  // namespace

std::string kdf_work_refusal(const KeyslotInfo& slot) {
  const std::string name = "keyslot " + std::to_string(slot.number) + " asks for ";
  const bool is_argon = slot.memory_kib > 0;
  const auto work =
      checked_mul<std::uint64_t>(slot.iterations, is_argon ? slot.memory_kib : std::uint32_t{1});
  if (!work || *work > kMaxKdfWork) {
    return name + std::to_string(slot.iterations) +
           (is_argon ? " passes over " + std::to_string(slot.memory_kib) + " KiB of memory"
                     : std::string(" iterations"));
  }
  if (slot.digest_iterations > kMaxKdfWork) {
    return name + std::to_string(slot.digest_iterations) + " iterations to check its key";
  }
  if (slot.parallel > kMaxKdfThreads) {
    return name + std::to_string(slot.parallel) + " threads";
  }
  return {};
}

std::uint64_t cgroup_memory_limit_bytes(std::string_view memberships, std::string_view mounts,
                                        const std::string& root) {
  std::uint64_t limit = kNoLimit;
  for (const std::string_view line : split(mounts, '\n')) {
    const std::optional<Hierarchy> hierarchy = hierarchy_of(line);
    if (!hierarchy) {
      continue;
    }
    // "4:memory,cpu:/group" of version 1, "0::/group" of version 2.
    for (const std::string_view membership : split(memberships, '\n')) {
      const std::size_t first = membership.find(':');
      const std::size_t second =
          first == std::string_view::npos ? first : membership.find(':', first + 1);
      if (second == std::string_view::npos) {
        continue;
      }
      const std::string_view controllers = membership.substr(first + 1, second - first - 1);
      if (hierarchy->is_version_2 ? controllers.empty() : lists(controllers, "memory")) {
        limit = std::min(limit, smallest_limit(*hierarchy, membership.substr(second + 1), root));
      }
    }
  }
  return limit;
}

std::uint64_t memory_limit_kib() {
  std::uint64_t limit_bytes = cgroup_memory_limit_bytes(whole_file("/proc/self/cgroup"),
                                                        whole_file("/proc/self/mountinfo"), "");
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    limit_bytes = std::min(
        limit_bytes, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes));
  }
  rlimit address_space = {};
  if (::getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    limit_bytes = std::min<std::uint64_t>(limit_bytes, address_space.rlim_cur);
  }
  return limit_bytes / 1024;
}

}  // namespace cryptimg
