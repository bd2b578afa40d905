// SPDX-License-Identifier: GPL-3.0-or-later
//
// The other way in: called by mount(8), see "External helpers" in its manual.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuse/cli.h"
#include "fuse/mount_options.h"

namespace cryptimg {
namespace {

constexpr const char* kUsage =
    "Usage: mount.fuse.cryptimg CONTAINER MOUNTPOINT [-fnsrv] [-N NAMESPACE] [-t TYPE]\n"
    "       [-o OPTIONS]\n"
    "What mount(8) calls for the type fuse.cryptimg; the options are those of cryptimg mount -o,\n"
    "see cryptimg mount --help.\n";

}  // namespace

Result<Command> parse_mount_helper(int argc, const char* const* argv) {
  MountOptions options;
  std::vector<std::string> places;
  bool fake = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      return Command(ShowText{kUsage});
    }
    if (word == "-o" || word == "-t" || word == "-N") {
      if (i + 1 == argc) {
        return fail(Errc::invalid_argument, std::string(word) + " needs a value");
      }
      const std::string_view value = argv[++i];
      if (word == "-o") {
        CRYPTIMG_RETURN_IF_ERROR(apply_mount_words(options, value));
      }
    } else if (word.size() > 1 && word[0] == '-') {
      if (word.find_first_not_of("fnsvr", 1) != std::string_view::npos) {
        return fail(Errc::invalid_argument, "unknown option " + std::string(word));
      }
      fake = fake || word.find('f') != std::string_view::npos;
      options.read_only = options.read_only || word.find('r') != std::string_view::npos;
    } else {
      places.emplace_back(word);
    }
  }
  if (places.size() != 2 || places[0].empty() || places[1].empty()) {
    return fail(Errc::invalid_argument, "a container and a mount point are needed");
  }
  if (fake) {
    return Command(ShowText{});
  }
  options.container = places[0];
  options.mountpoint = places[1];
  return Command(std::move(options));
}

}  // namespace cryptimg
