// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/mapped_file.h"
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

ssize_t write_answer(int /*fd*/, iovec* parts, int count, void* /*user_data*/) {
  return ::writev(current_fd, parts, count);
}

ssize_t read_request(int fd, void* target, std::size_t size, void* /*user_data*/) {
  return ::read(fd, target, size);
}

void on_wakeup(int /*signal*/) {}

// What libfuse said last: its functions return no reason.
std::string& last_words() {
  static std::string words;
  return words;
}

void keep_words(fuse_log_level /*level*/, const char* format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
void keep_words(fuse_log_level /*level*/, const char* format, va_list arguments) {
  std::array<char, 512> line{};
  std::vsnprintf(line.data(), line.size(), format, arguments);
  last_words() = line.data();
  while (!last_words().empty() && last_words().back() == '\n') {
    last_words().pop_back();
  }
}

// Session threads log from many threads, and have nothing to say that the handlers do not know.
void keep_silent(fuse_log_level /*level*/, const char* /*format*/, va_list /*arguments*/) {}

// For the value of one -o option: libfuse and fusermount3 split at commas and undo backslashes.
std::string escape_option(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ',' || c == '\\') {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string mount_words(const SessionOptions& options) {
  std::string words = "subtype=cryptimg,max_read=" + std::to_string(kMaxIoBytes);
  words += options.read_only ? ",ro" : ",rw";
  if (options.allow_root) {
    words += ",allow_root";
  } else if (options.allow_other) {
    words += ",allow_other";
  }
  if (options.default_permissions || options.allow_other) {
    words += ",default_permissions";
  }
  return words + ",fsname=" + escape_option(options.source);
}

// While it lives, what this process and its children write to stderr goes to `text` instead:
// fusermount3 explains itself there, and a failure is to be one sentence.
class StderrCapture {
 public:
  explicit StderrCapture(std::string& text)
      : text_(text),
        file_(::memfd_create("cryptimg-stderr", MFD_CLOEXEC)),
        saved_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)) {
    if (file_.valid() && saved_.valid()) {
      ::dup2(file_.get(), STDERR_FILENO);
    }
  }
  ~StderrCapture() {
    if (!file_.valid() || !saved_.valid()) {
      return;
    }
    ::dup2(saved_.get(), STDERR_FILENO);
    std::array<char, 4096> words{};
    const ssize_t got = ::pread(file_.get(), words.data(), words.size(), 0);
    text_.assign(words.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;

 private:
  std::string& text_;
  const UniqueFd file_;
  const UniqueFd saved_;
};

// The part of a sentence in what a program printed.
std::string clause(std::string words) {
  for (const std::string_view program : {"fusermount3: ", "fuse: "}) {
    if (words.rfind(program, 0) == 0) {
      words.erase(0, program.size());
    }
  }
  while (!words.empty() && (words.back() == '\n' || words.back() == '.')) {
    words.pop_back();
  }
  return words;
}

Error mount_error(const SessionOptions& options, const std::string& helper_words) {
  const std::string what = "cannot mount on " + options.mountpoint;
  if (helper_words.find("user_allow_other") != std::string::npos) {
    return {Errc::permission, 0,
            what + (options.allow_root ? " with allow_root" : " with allow_other") +
                ": the line user_allow_other is not in /etc/fuse.conf"};
  }
  // fusermount3 knows better than libfuse, which only knows that it failed.
  const std::string reason = clause(helper_words.empty() ? last_words() : helper_words);
  const bool is_device = reason.find("/dev/fuse") != std::string::npos;
  return {Errc::io, 0,
          what + ": " + (reason.empty() ? "fusermount3 failed; is fuse3 installed" : reason) +
              (is_device ? "; /dev/fuse must be there, and open to you" : "")};
}

}  // namespace

Result<std::unique_ptr<Session>> Session::mount(const SessionOptions& options,
                                                const fuse_lowlevel_ops& operations,
                                                void* user_data) {
  std::unique_ptr<Session> session(new Session(options, user_data));
  session->ended_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!session->ended_.valid()) {
    return fail_errno(errno, "cannot make an event descriptor");
  }

  std::string program = "cryptimg";
  std::string flag = "-o";
  std::string words = mount_words(options);
  std::array<char*, 4> arguments = {program.data(), flag.data(), words.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(3, arguments.data());
  ::fuse_set_log_func(keep_words);
  session->session_ = ::fuse_session_new(&args, &operations, sizeof operations, user_data);
  ::fuse_opt_free_args(&args);
  if (session->session_ == nullptr) {
    return fail(Errc::io, "libfuse refuses the mount options: " + last_words());
  }

  last_words().clear();
  std::string helper_words;
  const int code = [&] {
    const StderrCapture capture(helper_words);
    return ::fuse_session_mount(session->session_, options.mountpoint.c_str());
  }();
  if (code != 0) {
    return tl::unexpected(mount_error(options, helper_words));
  }
  ::fuse_set_log_func(keep_silent);

  const fuse_custom_io io = {write_answer, read_request, nullptr, nullptr};
  const int fd = ::fuse_session_fd(session->session_);
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
      ::fuse_session_custom_io(session->session_, &io, fd) != 0) {
    return fail(Errc::out_of_memory, "libfuse cannot be set up for this mount");
  }
  return session;
}

Session::~Session() {
  if (session_ != nullptr) {
    ::fuse_session_destroy(session_);
  }
}

Status Session::start(BufferPool& pool) {
  struct sigaction action = {};
  action.sa_handler = on_wakeup;
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
    pool.release(std::exchange(current_buffer, {}));
  }
  thread_ended();
}

Session::Taken Session::serve_one(int fd, BufferPool& pool) noexcept {
  if (current_buffer.empty()) {
    current_buffer = pool.acquire();
  }
  current_fd = fd;
  // The header apart from the payload, so that a READ, which is all header, leaves the buffer's
  // memory alone. libfuse wants the others in one piece.
  alignas(fuse_in_header) std::array<std::byte, kHeaderBytes> header;
  std::byte* const payload = current_buffer.data() + kPayloadOffset;
  std::array<iovec, 2> parts = {{{header.data(), header.size()}, {payload, kMaxIoBytes}}};
  const auto before = Clock::now();
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

bool Session::stop(std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  stopping_ = true;
  while (running_.load() != 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    // Again and again, since a signal that comes just before the read does not end it.
    for (std::thread& thread : threads_) {
      ::pthread_kill(thread.native_handle(), SIGUSR1);
    }
    std::this_thread::sleep_for(kPause);
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
