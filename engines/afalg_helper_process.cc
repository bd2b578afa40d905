// SPDX-License-Identifier: GPL-3.0-or-later
//
// The helper's own process: a thread a lane, which does operations, and the first thread, which
// opens and closes transforms and ends the process when its owner is gone.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engines/afalg_protocol.h"
#include "engines/block_algebra.h"

namespace cryptimg {
namespace {

using TransformPtr = std::shared_ptr<AlgTransform>;

// The open transforms by number. Thread-safe.
class Transforms {
 public:
  std::uint32_t add(TransformPtr transform) {
    const std::lock_guard lock(mutex_);
    open_.emplace(++last_, std::move(transform));
    return last_;
  }
  void remove(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    open_.erase(number);
  }
  TransformPtr find(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(number);
    return found == open_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, TransformPtr> open_;
  std::uint32_t last_ = 0;
};

// The operation socket that a lane's thread keeps for the transform it used last.
struct LaneSocket {
  std::uint32_t number = 0;
  std::unique_ptr<AlgOperation> operation;
};

// One operation: 0, or the errno of what failed. Less than was sent or asked for is EMSGSIZE.
int do_operation(AlgOperation& operation, Direction direction, Bytes iv, Bytes data,
                 MutableBytes target) {
  const ssize_t sent = operation.send(direction, iv, data);
  if (sent != static_cast<ssize_t>(data.size())) {
    return sent < 0 ? static_cast<int>(-sent) : EMSGSIZE;
  }
  const ssize_t got = operation.receive(target);
  if (got != static_cast<ssize_t>(target.size())) {
    return got < 0 ? static_cast<int>(-got) : EMSGSIZE;
  }
  return 0;
}

int do_work(Transforms& transforms, const AfalgHelper::Lane& lane, LaneSocket& socket,
            const AfalgHelper::Work& work) {
  const bool fits = work.size_bytes > 0 && work.size_bytes <= lane.sent.size() &&
                    work.step_bytes > 0 && work.size_bytes % work.step_bytes == 0 &&
                    work.size_bytes / work.step_bytes * kCipherBlockBytes <= lane.ivs.size();
  const TransformPtr transform = transforms.find(work.transform);
  if (!fits || transform == nullptr) {
    return EINVAL;
  }
  if (socket.operation == nullptr || socket.number != work.transform) {
    auto operation = transform->new_operation();
    if (!operation) {
      return operation.error().os_errno != 0 ? operation.error().os_errno : EIO;
    }
    socket = {work.transform, std::move(*operation)};
  }
  for (std::size_t at = 0; at < work.size_bytes; at += work.step_bytes) {
    const Bytes iv = lane.ivs.subspan(at / work.step_bytes * kCipherBlockBytes, kCipherBlockBytes);
    const int error = do_operation(*socket.operation, work.direction, work.has_iv ? iv : Bytes(),
                                   lane.sent.subspan(at, work.step_bytes),
                                   lane.answer.subspan(at, work.step_bytes));
    if (error != 0) {
      // What it holds of the operation that failed would be part of the next one.
      socket.operation.reset();
      return error;
    }
  }
  return 0;
}

// An errno of the kernel, which the owner must not take for one of its own: these two mean to it
// that there is no answer.
int told(int os_errno) {
  return os_errno == ETIMEDOUT || os_errno == EPIPE ? EIO : os_errno;
}

void run_lane(Transforms& transforms, const AfalgHelper::Lane& lane, int fd) {
  LaneSocket socket;
  AfalgHelper::Work work;
  while (::recv(fd, &work, sizeof work, 0) == static_cast<ssize_t>(sizeof work)) {
    const LaneAnswer answer{told(do_work(transforms, lane, socket, work))};
    ::send(fd, &answer, sizeof answer, MSG_NOSIGNAL);
  }
}

ControlAnswer answer_control(const HelperProcess& process, Transforms& transforms,
                             ControlRequest& request) {
  ControlAnswer answer;
  if (request.command == ControlRequest::Command::close) {
    transforms.remove(request.number);
    return answer;
  }
  request.driver.back() = '\0';
  auto transform = process.kernel->open(
      request.driver.data(),
      process.key.first(std::min<std::size_t>(request.key_bytes, process.key.size())));
  wipe(process.key);
  if (!transform) {
    answer.os_errno = told(transform.error().os_errno != 0 ? transform.error().os_errno : EIO);
    return answer;
  }
  answer.max_bytes = (*transform)->max_bytes();
  answer.number = transforms.add(std::move(*transform));
  return answer;
}

// Keeps the sockets and nothing else of what the owner had open, which would keep its locks, its
// mount and its pipes alive.
void leave_owner(const HelperProcess& process) {
  std::vector<int> kept = process.lane_sockets;
  kept.push_back(process.control_socket);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Where the owner had none, a socket may have its number.
    if (std::find(kept.begin(), kept.end(), fd) == kept.end()) {
      ::dup2(null, fd);
    }
  }
  std::sort(kept.begin(), kept.end());
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next) {
      ::close_range(next, number - 1, 0);
    }
    next = std::max(next, number + 1);
  }
  ::close_range(next, ~0U, 0);
  [[maybe_unused]] const int moved = ::chdir("/");
  ::setsid();
  ::prctl(PR_SET_NAME, "cryptimg-afalg");
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) {
    ::_exit(1);  // which the owner takes for a helper that died
  }
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  __user_cap_header_struct version = {_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none_held = {};
  ::syscall(SYS_capset, &version, none_held.data());
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

void run_helper_process(const HelperProcess& process) noexcept {
  leave_owner(process);
  // The lanes' threads use it until the process ends, and this function does not return before.
  Transforms transforms;
  for (std::size_t index = 0; index < process.lanes.size(); ++index) {
    std::thread(run_lane, std::ref(transforms), process.lanes[index], process.lane_sockets[index])
        .detach();
  }
  ControlRequest request;
  while (::recv(process.control_socket, &request, sizeof request, 0) ==
         static_cast<ssize_t>(sizeof request)) {
    const ControlAnswer answer = answer_control(process, transforms, request);
    ::send(process.control_socket, &answer, sizeof answer, MSG_NOSIGNAL);
  }
  ::_exit(0);
}

}  // namespace cryptimg
