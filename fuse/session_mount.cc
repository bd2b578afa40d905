// SPDX-License-Identifier: GPL-3.0-or-later
//
// How a session is mounted, and what is said where that fails.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fuse/session.h"

namespace cryptimg {
namespace {

ssize_t write_answer(int /*fd*/, iovec* parts, int count, void* /*user_data*/) {
  return ::writev(request_fd(), parts, count);
}

ssize_t read_request(int fd, void* target, std::size_t size, void* /*user_data*/) {
  return ::read(fd, target, size);
}

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
  session->gate_.reset(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!session->ended_.valid() || !session->gate_.valid()) {
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

}  // namespace cryptimg
