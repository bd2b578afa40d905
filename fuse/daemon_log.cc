// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/daemon_log.h"

#include <cerrno>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/syslog_sink.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "core/container_file.h"
#include "core/text.h"
#include "core/unique_fd.h"
#include "fuse/commands.h"

namespace cryptimg {
namespace {

// spdlog's own file sink opens without O_CLOEXEC.
class FdSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FdSink(UniqueFd fd) : fd_(std::move(fd)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // A log that cannot be written has nowhere to say so.
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), line.data(), line.size());
  }
  void flush_() override {}

  UniqueFd fd_;
};

std::unique_ptr<spdlog::logger>& logger() {
  static std::unique_ptr<spdlog::logger> instance;
  return instance;
}

void log(spdlog::level::level_enum level, const std::string& message) noexcept {
  if (logger() == nullptr) {
    return;
  }
  try {
    logger()->log(level, spdlog::string_view_t(printable(message)));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nowhere left to say it
  }
}

Status refuse_precious(const struct stat& log, const std::string& path,
                       const std::vector<PreciousFile>& precious) {
  for (const PreciousFile& other : precious) {
    struct stat attributes = {};
    if (::stat(other.path.c_str(), &attributes) == 0 && attributes.st_dev == log.st_dev &&
        attributes.st_ino == log.st_ino) {
      return fail(Errc::invalid_argument, "the log file " + path + " is " + other.role);
    }
  }
  if (const auto loop = loop_device_on(log.st_dev, log.st_ino)) {
    return fail(Errc::invalid_argument, "the log file " + path + " is attached to " + *loop);
  }
  return {};
}

Result<UniqueFd> open_log_file(const std::string& path, const std::vector<PreciousFile>& precious) {
  // Not waiting for whoever reads a FIFO, nor for a stopped terminal.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(::open(path.c_str(), kFlags, S_IRUSR | S_IWUSR));
  const int error = errno;
  struct stat attributes = {};
  if (!fd.valid() && error != ENXIO) {
    return fail_errno(error, "cannot open the log file " + path);
  }
  if (!fd.valid() || ::fstat(fd.get(), &attributes) != 0 ||
      !(S_ISREG(attributes.st_mode) || S_ISCHR(attributes.st_mode))) {
    return fail(Errc::unsupported,
                "the log file " + path + " is neither a regular file nor a character device");
  }
  if (S_ISREG(attributes.st_mode)) {
    CRYPTIMG_RETURN_IF_ERROR(refuse_precious(attributes, path, precious));
  }
  return fd;
}

}  // namespace

Status open_log(const std::optional<std::string>& file, bool to_stderr, const std::string& level,
                const std::vector<PreciousFile>& precious) {
  try {
    spdlog::sink_ptr sink;
    if (file) {
      CRYPTIMG_ASSIGN_OR_RETURN(UniqueFd fd, open_log_file(*file, precious));
      sink = std::make_shared<FdSink>(std::move(fd));
    } else if (to_stderr) {
      UniqueFd fd(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
      if (!fd.valid()) {
        return fail_errno(errno, "cannot log to standard error");
      }
      sink = std::make_shared<FdSink>(std::move(fd));
    } else {
      constexpr bool kFormat = false;
      sink = std::make_shared<spdlog::sinks::syslog_sink_mt>("cryptimg", LOG_PID | LOG_NDELAY,
                                                             LOG_DAEMON, kFormat);
    }
    logger() = std::make_unique<spdlog::logger>("cryptimg", std::move(sink));
    logger()->set_pattern("%Y-%m-%d %H:%M:%S.%e [%P] %l: %v");
    logger()->set_level(spdlog::level::from_str(level));
  } catch (const std::exception& error) {
    return fail(Errc::io, std::string("cannot open the log: ") + error.what());
  }
  return {};
}

void log_info(const std::string& message) noexcept {
  log(spdlog::level::info, message);
}
void log_warning(const std::string& message) noexcept {
  log(spdlog::level::warn, message);
}
void log_error(const std::string& message) noexcept {
  log(spdlog::level::err, message);
}

}  // namespace cryptimg
