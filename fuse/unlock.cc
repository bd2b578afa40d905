// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/unlock.h"

#include <cstdio>
#include <string>

#include <strings.h>

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

Status check_expected(const ContainerInfo& info, const MountOptions& options) {
  const auto refuse = [&](const std::string& what, const std::string& found,
                          const std::string& wanted) -> Status {
    return fail(Errc::corrupt, options.container + " is not the container that is meant: its " +
                                   what + " is " + found + ", not " + wanted);
  };
  if (options.require_cipher && info.cipher != *options.require_cipher) {
    return refuse("cipher", info.cipher, *options.require_cipher);
  }
  if (options.uuid && ::strcasecmp(info.uuid.c_str(), options.uuid->c_str()) != 0) {
    return refuse("UUID", info.uuid, *options.uuid);
  }
  return {};
}

Result<Secret> unlock_container(Container& container, const MountOptions& options) {
  CRYPTIMG_RETURN_IF_ERROR(check_expected(container.info(), options));
  const int tries = !options.key_file && stdin_is_terminal() ? kTries : 1;
  for (int attempt = 1;; ++attempt) {
    CRYPTIMG_ASSIGN_OR_RETURN(const Secret passphrase, read_secret(options));
    auto key = container.unlock(passphrase, options.keyslot,
                                options.allow_costly_kdf ? KdfBounds::lift : KdfBounds::enforce);
    if (key || key.error().code != Errc::wrong_key || attempt == tries) {
      return key;
    }
    report(key.error());
  }
}

}  // namespace cryptimg
