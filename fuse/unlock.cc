// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/unlock.h"

#include <cstdio>
#include <string>

#include "core/text.h"
#include "fuse/commands.h"
#include "fuse/passphrase.h"

namespace cryptimg {
namespace {

constexpr int kTries = 3;

Result<Secret> read_secret(const MountOptions& options) {
  if (!options.key_file) {
    return read_passphrase("Passphrase for " + printable(options.container) + ": ", false);
  }
  std::string warning;
  auto secret = read_key_file(*options.key_file, warning);
  if (!warning.empty()) {
    std::fprintf(stderr, "cryptimg: %s.\n", printable(warning).c_str());
  }
  return secret;
}

}  // namespace

Result<Secret> unlock_container(Container& container, const MountOptions& options) {
  const int tries = !options.key_file && stdin_is_terminal() ? kTries : 1;
  for (int attempt = 1;; ++attempt) {
    CRYPTIMG_ASSIGN_OR_RETURN(const Secret passphrase, read_secret(options));
    auto key = container.unlock(passphrase, options.keyslot);
    if (key || key.error().code != Errc::wrong_key || attempt == tries) {
      return key;
    }
    report(key.error());
  }
}

}  // namespace cryptimg
