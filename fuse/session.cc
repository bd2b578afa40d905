// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/session.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/mapped_file.h"
#include "core/secret.h"
#include "core/signal_stack.h"
#include "core/thread_error.h"

namespace cryptimg {
namespace {

// What lies before the payload of a WRITE.
constexpr std::size_t kHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
static_assert(kHeaderBytes == 80 && kHeaderBytes < kPayloadOffset);

thread_local int current_fd = -1;
thread_local MutableBytes current_buffer;  // empty once a handler has taken it
thread_local bool wants_more = false;
thread_local bool came_at_once = false;

using Clock = std::chrono::steady_clock;
// Longer than reading a small request takes, shorter than being woken for one.
constexpr std::chrono::microseconds kAtOnce{3};
constexpr unsigned kLooks = 4;

void on_wakeup(int /*signal*/) {}

}  // namespace

Session::~Session() {
  if (session_ != nullptr) {
    ::fuse_session_destroy(session_);
  }
}

Status Session::start(BufferPool& pool) {
  struct sigaction action = {};
  action.sa_handler = on_wakeup;
  action.sa_flags = SA_ONSTACK;
  if (::sigaction(SIGUSR1, &action, nullptr) != 0) {
    return fail_errno(errno, "cannot install a signal handler");
  }
  // A user may be without access to /dev/fuse (fusermount3 has it): one descriptor then serves all,
  // only slower.
  const int first = ::fuse_session_fd(session_);
  std::vector<Fds> fds(thread_count_);
  for (Fds& own : fds) {
    own.waiting = first;
    if (&own != fds.data()) {
      if (UniqueFd clone = clone_fd(0); clone.valid()) {
        own.waiting = clone.get();
        clones_.push_back(std::move(clone));
      }
    }
    if (batch_end_ != nullptr) {
      UniqueFd clone = clone_fd(O_NONBLOCK);
      own.polling = clone.get();
      clones_.push_back(std::move(clone));
    }
  }
  running_ = thread_count_;
  unsigned started = 0;
  try {
    threads_.reserve(thread_count_);
    for (; started < thread_count_; ++started) {
      threads_.emplace_back([this, own = fds[started], &pool] { run(own, pool); });
    }
  } catch (const std::system_error& error) {
    running_ -= thread_count_ - started;
    return tl::unexpected(thread_error("cannot start the session threads", error));
  }
  return {};
}

UniqueFd Session::clone_fd(int flags) const noexcept {
  UniqueFd clone(::open("/dev/fuse", O_RDWR | O_CLOEXEC | flags));
  auto source = static_cast<std::uint32_t>(::fuse_session_fd(session_));
  if (clone.valid() && ::ioctl(clone.get(), FUSE_DEV_IOC_CLONE, &source) != 0) {
    clone.reset();
  }
  return clone;
}

void Session::run(Fds fds, BufferPool& pool) noexcept {
  block_signals();
  const SignalStack signal_stack;
  sigset_t wakeup;
  ::sigemptyset(&wakeup);
  ::sigaddset(&wakeup, SIGUSR1);
  ::pthread_sigmask(SIG_UNBLOCK, &wakeup, nullptr);
  ::pthread_setname_np(::pthread_self(), "cryptimg-fuse");

  // To look for more costs a system call, which a lone request would wait for. So only after signs
  // of a queue: a read that did not have to wait, or a look that found something.
  unsigned looks = 0;
  Taken taken = Taken::nothing;
  while (taken != Taken::end) {
    bool put_aside = false;
    if (paused_.load() && !pass_gate(fds.waiting)) {
      break;
    }
    taken = serve_one(fds.waiting, pool);
    if (std::exchange(came_at_once, false)) {
      looks = kLooks;
    }
    while (std::exchange(wants_more, false)) {
      put_aside = true;
      if (fds.polling >= 0 && taken == Taken::request && looks > 0) {
        taken = serve_one(fds.polling, pool);
        looks = taken == Taken::request ? kLooks : looks - 1;
      }
    }
    if (put_aside) {
      batch_end_(user_data_);
    }
  }
  if (!current_buffer.empty()) {
    pool.release_clean(std::exchange(current_buffer, {}));
  }
  thread_ended();
}

Session::Taken Session::serve_one(int fd, BufferPool& pool) noexcept {
  if (current_buffer.empty()) {
    current_buffer = pool.acquire_clean();
  }
  current_fd = fd;
  // The header apart from the payload, so that a READ, which is all header, leaves the buffer's
  // memory alone. libfuse wants the others in one piece.
  alignas(fuse_in_header) std::array<std::byte, kHeaderBytes> header;
  std::byte* const payload = current_buffer.data() + kPayloadOffset;
  std::array<iovec, 2> parts = {{{header.data(), header.size()}, {payload, kMaxIoBytes}}};
  const auto before = Clock::now();
  if (paused_.load()) {
    return stopping_.load() ? Taken::end : Taken::nothing;
  }
  const ssize_t got = stopping_.load() ? 0 : ::readv(fd, parts.data(), parts.size());
  came_at_once = Clock::now() - before < kAtOnce;
  if (stopping_.load()) {
    return Taken::end;
  }
  if (got < 0) {
    // ENOENT: the request was interrupted before it was read.
    if (errno == EINTR || errno == EAGAIN || errno == ENOENT) {
      return Taken::nothing;
    }
    if (errno != ENODEV && errno != ECONNABORTED) {
      failure_ = errno;
    }
    return Taken::end;
  }
  fuse_buf buffer = {};
  buffer.size = static_cast<std::size_t>(got);
  buffer.fd = -1;
  buffer.mem = header.data();
  const std::uint32_t opcode = reinterpret_cast<const fuse_in_header*>(header.data())->opcode;
  if (opcode != FUSE_READ && opcode != FUSE_WRITE && batch_end_ != nullptr) {
    // It may take long (FSYNC): what was put aside does not wait for it.
    batch_end_(user_data_);
    current_fd = fd;
  }
  if (opcode != FUSE_READ) {
    buffer.mem = payload - kHeaderBytes;
    std::memcpy(buffer.mem, header.data(), kHeaderBytes);
  }
  ::fuse_session_process_buf(session_, &buffer);
  if (opcode == FUSE_WRITE && !current_buffer.empty()) {
    // Copied or refused: the next request may be long in coming.
    wipe(current_buffer.subspan(kPayloadOffset, static_cast<std::size_t>(got) - kHeaderBytes));
  }
  if (::fuse_session_exited(session_) != 0) {
    failure_ = EPROTO;
    return Taken::end;
  }
  return Taken::request;
}

void Session::thread_ended() noexcept {
  if (running_.fetch_sub(1) == 1) {
    const std::uint64_t one = 1;
    // Cannot fail: the counter is far from its limit.
    [[maybe_unused]] const ssize_t written = ::write(ended_.get(), &one, sizeof one);
  }
}

bool Session::pass_gate(int fd) noexcept {
  std::unique_lock lock(gate_mutex_);
  ++at_gate_;
  bool is_mounted = true;
  while (paused_.load() && !stopping_.load() && is_mounted) {
    // Of the descriptor only its end is of interest, which the kernel tells always.
    std::array<pollfd, 2> waiting = {{{fd, 0, 0}, {gate_.get(), POLLIN, 0}}};
    lock.unlock();
    ::poll(waiting.data(), waiting.size(), -1);
    is_mounted = waiting[0].revents == 0;
    lock.lock();
  }
  --at_gate_;
  return is_mounted && !stopping_.load();
}

// Has to be done again and again, since a signal that comes just before the read does not end it.
void Session::wake_threads() noexcept {
  constexpr std::chrono::milliseconds kPause{5};
  for (std::thread& thread : threads_) {
    ::pthread_kill(thread.native_handle(), SIGUSR1);
  }
  std::this_thread::sleep_for(kPause);
}

bool Session::pause(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::unique_lock lock(gate_mutex_);
  paused_ = true;
  std::uint64_t open = 0;
  [[maybe_unused]] const ssize_t drained = ::read(gate_.get(), &open, sizeof open);
  while (at_gate_ != running_.load()) {
    lock.unlock();
    if (Clock::now() > deadline) {
      resume();
      return false;
    }
    wake_threads();
    lock.lock();
  }
  return true;
}

void Session::resume() {
  const std::lock_guard lock(gate_mutex_);
  paused_ = false;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(gate_.get(), &one, sizeof one);
}

bool Session::stop(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  stopping_ = true;
  resume();
  while (running_.load() != 0) {
    if (Clock::now() > deadline) {
      return false;
    }
    wake_threads();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
  return true;
}

MutableBytes take_request_buffer() noexcept {
  return std::exchange(current_buffer, {});
}

void take_more() noexcept {
  wants_more = true;
}

int request_fd() noexcept {
  return current_fd;
}

void answer_through(int fd) noexcept {
  current_fd = fd;
}

}  // namespace cryptimg
