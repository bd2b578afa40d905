// SPDX-License-Identifier: GPL-3.0-or-later
//
// ImageFs: the file system of one mount, a single file over an EncryptedImage: `image` in a folder,
// or the mount point itself where that is a regular file. Translates FUSE's requests into the
// image's and Errors into errnos; what each request means is in docs/architecture.md.
//
// The handlers run on the session's threads, at once on several. A read or write is put aside while
// more are queued, then made into extents with them (image_batch.cc); or it keeps a buffer and is
// answered by whichever thread completes it: see session.h for the buffer's layout and for how an
// answer finds its descriptor.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>

#include <sys/stat.h>
#include <sys/types.h>

#include "core/buffer_pool.h"
#include "core/bytes.h"
#include "core/encrypted_image.h"
#include "core/extent.h"
#include "core/result.h"

struct fuse_lowlevel_ops;
struct fuse_req;
struct iovec;

namespace cryptimg {

struct PendingRead;
struct PendingWrite;

struct ImageFsOptions {
  bool root_is_image = false;  // the mount point is a regular file
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t file_mode = 0600;
  mode_t directory_mode = 0700;
  bool coalesce = true;                       // make requests that are queued together one extent
  std::uint64_t max_extent_bytes = 1U << 20;  // of which at most so long; at most kMaxIoBytes
};

// The errno for a failed request.
int to_errno(const Error& error);

// Which requests failed, said at most once a second for each kind. Thread-safe.
class FailureLog {
 public:
  enum class Kind : std::uint8_t { read, write, flush, zero, allocate };
  void note(Kind kind, const Error& error) noexcept;

 private:
  struct State {
    std::atomic<std::int64_t> silent_until_ns{0};
    std::atomic<std::uint64_t> unsaid{0};
  };
  std::array<State, 5> states_;
};

class ImageFs {
 public:
  // An open of the image. `last_write` is the sequence number of its latest completed write.
  struct Handle {
    std::atomic<std::uint64_t> last_write{0};
  };

  // `image` and `pool` outlive this, and this outlives every request.
  ImageFs(EncryptedImage& image, BufferPool& pool, const ImageFsOptions& options)
      : image_(image), pool_(pool), options_(options) {}
  ImageFs(const ImageFs&) = delete;
  ImageFs& operator=(const ImageFs&) = delete;

  // The functions for Session::mount, with an ImageFs as user data.
  static fuse_lowlevel_ops operations();

  // What stat shows of the folder and of the image.
  [[nodiscard]] struct stat directory_attributes() const;
  [[nodiscard]] struct stat image_attributes() const;
  [[nodiscard]] bool is_image(std::uint64_t inode) const;

  // The requests that touch bytes (image_io.cc). Each answers `request` exactly once, some after
  // they return.
  void read(fuse_req* request, std::size_t size_bytes, off_t offset_bytes);
  // `flags` are the open file's (O_DIRECT, O_SYNC ...). Of a write across the image's end, what
  // fits is written, and the answer is a short count, or ENOSPC with O_DIRECT.
  void write(fuse_req* request, const char* payload, std::size_t size_bytes, off_t offset_bytes,
             int flags, Handle& handle);
  // Serves the reads and writes that the calling thread put aside; for SessionOptions::batch_end.
  void work_batch();
  void flush(fuse_req* request, const Handle& handle);
  void fsync(fuse_req* request);
  void fallocate(fuse_req* request, int mode, off_t offset_bytes, off_t length_bytes,
                 Handle& handle);

  [[nodiscard]] const EncryptedImage& image() const { return image_; }

 private:
  struct Io;

  // Both: false where the request is to be served now.
  bool put_aside(const PendingRead& read);
  bool put_aside(PendingWrite write, Bytes payload);  // copies the payload
  void work_writes(std::span<const PendingWrite> writes);
  void work_reads(std::span<PendingRead> reads);
  void fetch_cold(std::span<const ByteExtent> ranges);
  void work_run(const ByteExtent& range, std::span<const PendingRead> reads, MutableBytes buffer);
  // On the calling thread alone; done on return. `merged`: how many requests it serves.
  Status transfer(IoRequest::Kind kind, const ByteExtent& range, MutableBytes buffer,
                  std::size_t merged, bool durable);

  // A request by itself, answered on completion. `buffer` is a request buffer, given back then; it
  // holds a write's payload at kPayloadOffset.
  void start_read(const PendingRead& read);
  void start_write(const PendingWrite& write, MutableBytes buffer);
  void submit(Io& io, const ByteExtent& range);
  static void complete(IoRequest& io, Status status) noexcept;

  void answer_read(const PendingRead& read, const Status& status, std::span<const iovec> plaintext);
  void answer_write(const PendingWrite& write, const Status& status);
  void answer_status(fuse_req* request, FailureLog::Kind kind, const Status& status);

  EncryptedImage& image_;
  BufferPool& pool_;
  const ImageFsOptions options_;
  FailureLog failures_;
};

}  // namespace cryptimg
