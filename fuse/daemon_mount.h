// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the daemon's two sources share: daemon.cc sets a mount up, daemon_serve.cc waits for its end
// and takes it down. Main thread only.
#pragma once

#include <memory>
#include <string>

#include "core/buffer_pool.h"
#include "core/cipher_engine.h"
#include "core/encrypted_image.h"
#include "core/key_digest.h"
#include "core/unique_fd.h"
#include "fuse/control.h"
#include "fuse/daemon_status.h"
#include "fuse/exit_code.h"
#include "fuse/image_fs.h"
#include "fuse/janitor.h"
#include "fuse/mount_lock.h"
#include "fuse/mount_table.h"
#include "fuse/session.h"

namespace cryptimg {

// What serves one mount. Members are destroyed from the last to the first.
struct Mount {
  std::string mountpoint;
  UniqueFd signals;
  std::unique_ptr<Janitor> janitor;
  std::shared_ptr<const CipherEngine> engine;
  std::string cipher;
  std::string uuid;  // of the container's header
  KeyDigest key;     // of the volume key
  std::unique_ptr<BufferPool> pool;
  std::unique_ptr<EncryptedImage> image;
  std::unique_ptr<ImageFs> fs;
  std::unique_ptr<Session> session;
  std::unique_ptr<MountLock> lock;
  std::unique_ptr<DaemonStatus> status;
  std::unique_ptr<ControlServer> control;
  MountEntry entry;
};

// Returns when the session has ended by itself, or is to be ended by force. REQUIRES: set up.
void serve(Mount& mount);

// Ends a mount, however far it was set up. The container's lock is free, and every key gone, before
// clients hear of the end.
ExitCode tear_down(Mount& mount);

}  // namespace cryptimg
