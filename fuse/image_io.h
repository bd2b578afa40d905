// SPDX-License-Identifier: GPL-3.0-or-later
//
// The requests of ImageFs that touch bytes, as its two sources pass them around: image_io.cc, which
// takes and answers them, and image_batch.cc, which makes several into one extent. Plain values.
#pragma once

#include <cstddef>

#include "core/extent.h"
#include "fuse/image_fs.h"

namespace cryptimg {

// A request that waits for its answer. `fd` is the descriptor it came by.
struct PendingRead {
  fuse_req* request = nullptr;
  int fd = -1;
  ByteExtent range;  // inside the image
};

struct PendingWrite {
  fuse_req* request = nullptr;
  int fd = -1;
  ImageFs::Handle* handle = nullptr;
  ByteExtent range;  // inside the image
  bool durable = false;
  bool ends_with_no_space = false;  // what did not fit is answered for, not what did
  bool is_whole = false;            // the payload is `range` and no more
  // In a batch: where its payload lies in the staging buffer, and whether that is right behind the
  // payload before it, as in the image.
  std::size_t position = 0;
  bool continues = false;
};

}  // namespace cryptimg
