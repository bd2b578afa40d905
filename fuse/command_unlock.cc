// SPDX-License-Identifier: GPL-3.0-or-later
//
// The daemon can open no file any more, and no header parser should run in it: so the key is
// derived here, as `mount` does it, and handed over. The daemon knows whether it is the right one.
#include <sys/resource.h>

#include "core/container.h"
#include "fuse/commands.h"
#include "fuse/mount_of_target.h"
#include "fuse/unlock.h"

namespace cryptimg {
namespace {

Status unlock(const UnlockOptions& options) {
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  CRYPTIMG_ASSIGN_OR_RETURN(const MountEntry mount, mount_of_target(options.target));
  CRYPTIMG_ASSIGN_OR_RETURN(const MountState state, ask_state(mount));
  if (state.locked == "no") {
    return fail(Errc::exists, mount.mountpoint + " is not locked");
  }
  // The header must be that of the mount, or the passphrase is not even asked for.
  MountOptions expected = options.mount;
  expected.container = mount.container;
  if (!expected.header && !state.header.empty()) {
    expected.header = state.header;
  }
  expected.uuid = state.uuid;
  expected.require_cipher = state.cipher;
  OpenOptions open;
  open.container = expected.container;
  open.header = expected.header;
  CRYPTIMG_ASSIGN_OR_RETURN(Container container, Container::open_header(open));
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, unlock_container(container, expected));
  return hand_over_key(mount, key);
}

}  // namespace

ExitCode run_unlock(const UnlockOptions& options) {
  const Status unlocked = unlock(options);
  return unlocked ? ExitCode::ok : report(unlocked.error());
}

}  // namespace cryptimg
