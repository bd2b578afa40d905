// SPDX-License-Identifier: GPL-3.0-or-later
//
// Session: a FUSE mount and the threads that take requests from it. The loop is our own: every
// thread and every /dev/fuse descriptor is made at the start (libfuse's loop makes both under
// load), and each request but a READ arrives in a buffer of the pool, so that a handler can keep
// the buffer beyond its return and answer from another thread. A READ fills no buffer: its handler
// takes one, the one in use last, which is the likeliest to be in the cache. The buffer that a
// thread waits with holds no plaintext: of a WRITE that no handler kept, it is wiped.
//
// A thread takes what is queued before it works: a handler may put its request aside and ask for
// more (take_more()). The thread then takes the next request if there is one, without waiting, and
// calls batch_end when there is none, when no handler asked for more, and before any request that
// is neither a READ nor a WRITE.
//
// A request buffer, kRequestBufferBytes long:
//   [kPayloadOffset - 80, ...)       what the kernel sends; the payload of a WRITE then starts at
//                                    kPayloadOffset exactly
//   [1, kRecordOffset)               room for the sectors around a payload: less than a sector
//                                    before it, less than one behind kMaxIoBytes
//   [kRecordOffset, the end)         for the handler, untouched here
//
// Session itself is used by one thread, but for pause() and resume(), which are for another one
// that is not in them while start() or stop() is called. The free functions are for the handlers,
// which run on the session's threads, and for the threads that answer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/buffer_pool.h"
#include "core/bytes.h"
#include "core/result.h"
#include "core/unique_fd.h"

struct fuse_lowlevel_ops;
struct fuse_session;

namespace cryptimg {

inline constexpr std::size_t kMaxIoBytes = 1U << 20;  // FUSE's limit: 256 pages
inline constexpr std::size_t kPayloadOffset = 4096;
inline constexpr std::size_t kRecordOffset = kPayloadOffset + kMaxIoBytes + 4096;
inline constexpr std::size_t kRequestBufferBytes = kRecordOffset + 4096;

struct SessionOptions {
  std::string mountpoint;  // absolute; a directory or a regular file
  std::string source;      // shown as the mounted device: the container's absolute path
  bool read_only = false;
  bool allow_other = false;
  bool allow_root = false;
  bool default_permissions = false;
  unsigned threads = 1;
  // Works on the requests that the calling thread's handlers put aside since the last call, if any;
  // gets user_data. Null: threads take one request at a time.
  void (*batch_end)(void* user_data) = nullptr;
};

class Session {
 public:
  // Mounts, as root directly, else through fusermount3. Requests wait in the kernel until start().
  // `operations` is copied; `user_data` is what its functions find with fuse_req_userdata().
  // Failures: as mount(2) or fusermount3 report, with their words, which do not reach stderr
  // themselves. REQUIRES: no other thread uses stderr meanwhile.
  static Result<std::unique_ptr<Session>> mount(const SessionOptions& options,
                                                const fuse_lowlevel_ops& operations,
                                                void* user_data);
  // Closes the descriptors, which ends the connection. REQUIRES: stop() returned true.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Opens the descriptors and starts the threads, which take buffers from `pool` (it outlives
  // this). All signals are blocked in them but SIGUSR1, whose handler this installs.
  Status start(BufferPool& pool);

  // Stops taking requests, and returns when no thread handles one: the kernel keeps what comes.
  // False, with all going on as before, where some thread is stuck in a handler for longer than
  // `patience`. That the mount is gone, and stop(), end the threads as ever.
  [[nodiscard]] bool pause(std::chrono::milliseconds patience);
  // Goes on after pause().
  void resume();

  // Readable when every thread has ended because the mount is gone.
  [[nodiscard]] int ended_fd() const { return ended_.get(); }
  // Ends the threads, also where the mount is still there, and joins them. False where some thread
  // is stuck in a handler for longer than `patience`; the process can then only _exit().
  [[nodiscard]] bool stop(std::chrono::milliseconds patience);
  // Whether the threads ended by a failure rather than by unmounting: its errno, else 0.
  [[nodiscard]] int failure() const { return failure_.load(); }
  [[nodiscard]] unsigned threads() const { return thread_count_; }

 private:
  // The descriptors of one thread. The second never blocks; -1 where it could not be had.
  struct Fds {
    int waiting = -1;
    int polling = -1;
  };
  enum class Taken : std::uint8_t { request, nothing, end };

  Session(const SessionOptions& options, void* user_data)
      : thread_count_(options.threads), batch_end_(options.batch_end), user_data_(user_data) {}
  // A descriptor of its own for the same connection; invalid where the user may not open /dev/fuse.
  [[nodiscard]] UniqueFd clone_fd(int flags) const noexcept;
  void run(Fds fds, BufferPool& pool) noexcept;
  // Takes a request from `fd` and calls its handler. `end` when this thread should end.
  Taken serve_one(int fd, BufferPool& pool) noexcept;
  void thread_ended() noexcept;
  // Waits while paused. False where the mount is gone meanwhile.
  bool pass_gate(int fd) noexcept;
  void wake_threads() noexcept;

  const unsigned thread_count_;
  void (*const batch_end_)(void*);
  void* const user_data_;
  fuse_session* session_ = nullptr;
  std::vector<UniqueFd> clones_;  // of the session's descriptor
  std::vector<std::thread> threads_;
  std::atomic<unsigned> running_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> paused_{false};  // changed under gate_mutex_
  std::atomic<int> failure_{0};
  UniqueFd ended_;
  UniqueFd gate_;  // readable while not paused
  std::mutex gate_mutex_;
  unsigned at_gate_ = 0;  // guarded by gate_mutex_: threads that wait
};

// The buffer of the request that the calling thread is handling: the handler's from now on, to be
// released to the pool. REQUIRES: called once, from a handler, not for a READ.
MutableBytes take_request_buffer() noexcept;
// The calling handler has put its request aside, and the thread may take another before batch_end.
// Without batch_end, or where no descriptor is there to look with, batch_end comes at once.
void take_more() noexcept;
// The descriptor that the request came by. The kernel takes an answer only from there.
int request_fd() noexcept;
// Makes the calling thread's next answers go to `fd`.
void answer_through(int fd) noexcept;

}  // namespace cryptimg
