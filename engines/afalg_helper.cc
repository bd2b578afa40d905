// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/afalg_helper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/afalg_protocol.h"

namespace cryptimg {
namespace {

using Clock = AfalgHelper::Clock;
using std::chrono::milliseconds;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLaneStrideBytes = 2 * kLaneBytes + kPageBytes;
static_assert(kLaneIvBytes <= kPageBytes);

// The two ends of a new socket pair.
Result<std::pair<UniqueFd, UniqueFd>> make_sockets() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail_errno(errno, "cannot make the sockets of the AF_ALG helper");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

template <typename Message>
bool send_message(int socket, const Message& message) {
  ssize_t sent = 0;
  do {
    sent = ::send(socket, &message, sizeof message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof message);
}

// The next message, or ETIMEDOUT or EPIPE.
template <typename Message>
int receive_message(int socket, Clock::time_point deadline, Message& message) {
  pollfd waiting = {socket, POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<long>(left, 0)));
    if (ready > 0) {
      break;
    }
    if (ready == 0) {
      return ETIMEDOUT;
    }
    if (errno != EINTR) {
      return EPIPE;
    }
  }
  const ssize_t got = ::recv(socket, &message, sizeof message, MSG_DONTWAIT);
  return got == static_cast<ssize_t>(sizeof message) ? 0 : EPIPE;
}

bool has_ended(pid_t process, milliseconds limit) {
  constexpr milliseconds kStep{2};
  const Clock::time_point deadline = Clock::now() + limit;
  for (;;) {
    if (::waitpid(process, nullptr, WNOHANG) != 0) {
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(kStep);
  }
}

}  // namespace

AfalgHelper::Mapping::~Mapping() {
  if (address != nullptr) {
    wipe({static_cast<std::byte*>(address), size_bytes});
    ::munmap(address, size_bytes);
  }
}

Status AfalgHelper::map(unsigned lanes) {
  mapping_.size_bytes = lanes * kLaneStrideBytes + kPageBytes;
  void* const memory = ::mmap(nullptr, mapping_.size_bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail_errno(errno, "no memory to share with the AF_ALG helper");
  }
  mapping_.address = memory;
  ::madvise(memory, mapping_.size_bytes, MADV_DONTDUMP);
  auto* const bytes = static_cast<std::byte*>(memory);
  key_ = {bytes, kMaxAlgKeyBytes};
  // Best effort: a key lies there only while it is being handed over.
  ::mlock(bytes, kPageBytes);
  for (unsigned index = 0; index < lanes; ++index) {
    std::byte* const start = bytes + kPageBytes + index * kLaneStrideBytes;
    OwnLane lane;
    lane.shared = {{start, kLaneBytes},
                   {start + kLaneBytes, kLaneBytes},
                   {start + 2 * kLaneBytes, kLaneIvBytes}};
    lanes_.push_back(std::move(lane));
  }
  return {};
}

Result<std::unique_ptr<AfalgHelper>> AfalgHelper::start(
    const std::shared_ptr<const AlgKernel>& kernel, unsigned lanes, milliseconds patience) {
  std::unique_ptr<AfalgHelper> helper(new AfalgHelper(patience));
  CRYPTIMG_RETURN_IF_ERROR(helper->map(lanes));
  HelperProcess process;
  process.kernel = kernel;
  process.key = helper->key_;
  std::vector<UniqueFd> theirs;
  for (OwnLane& lane : helper->lanes_) {
    CRYPTIMG_ASSIGN_OR_RETURN(auto ends, make_sockets());
    lane.socket = std::move(ends.first);
    process.lanes.push_back(lane.shared);
    process.lane_sockets.push_back(ends.second.get());
    theirs.push_back(std::move(ends.second));
  }
  CRYPTIMG_ASSIGN_OR_RETURN(auto ends, make_sockets());
  helper->control_ = std::move(ends.first);
  process.control_socket = ends.second.get();
  theirs.push_back(std::move(ends.second));

  const pid_t child = ::fork();
  if (child < 0) {
    return fail_errno(errno, "cannot start the AF_ALG helper");
  }
  if (child == 0) {
    run_helper_process(process);
  }
  helper->process_ = child;
  return helper;
}

AfalgHelper::~AfalgHelper() {
  control_.reset();
  constexpr milliseconds kPatience{1000};
  if (process_ > 0 && !has_ended(process_, kPatience)) {
    ::kill(process_, SIGKILL);
    has_ended(process_, kPatience);
  }
}

Result<AfalgHelper::Transform> AfalgHelper::open(const std::string& driver, Bytes key) {
  const std::lock_guard lock(control_mutex_);
  ControlRequest request;
  if (driver.size() >= request.driver.size() || key.size() > key_.size()) {
    return fail(Errc::invalid_argument, "the driver's name or its key is too long");
  }
  if (control_is_lost_) {
    return fail(Errc::unavailable, "the AF_ALG helper does not answer any more", ETIMEDOUT);
  }
  std::memcpy(request.driver.data(), driver.data(), driver.size());
  request.key_bytes = static_cast<std::uint32_t>(key.size());
  std::memcpy(key_.data(), key.data(), key.size());
  ControlAnswer answer;
  int error = EPIPE;
  if (send_message(control_.get(), request)) {
    error = receive_message(control_.get(), Clock::now() + patience_, answer);
  }
  control_is_lost_ = error != 0;
  // The helper has wiped it if it lives.
  wipe(key_);
  if (error != 0) {
    return fail(Errc::unavailable,
                error == ETIMEDOUT ? "the driver " + driver + " does not finish setting its key"
                                   : std::string("the AF_ALG helper has died"),
                error);
  }
  if (answer.os_errno != 0) {
    return fail(Errc::unavailable,
                "the kernel refuses the driver " + driver + " with a key of " +
                    std::to_string(key.size() * 8) + " bits: " + std::strerror(answer.os_errno),
                answer.os_errno);
  }
  return Transform{answer.number, std::min(static_cast<std::size_t>(answer.max_bytes), kLaneBytes)};
}

void AfalgHelper::close(std::uint32_t transform) noexcept {
  const std::lock_guard lock(control_mutex_);
  if (control_is_lost_) {
    return;
  }
  ControlRequest request;
  request.command = ControlRequest::Command::close;
  request.number = transform;
  ControlAnswer answer;
  control_is_lost_ = !send_message(control_.get(), request) ||
                     receive_message(control_.get(), Clock::now() + patience_, answer) != 0;
}

bool AfalgHelper::begin(unsigned lane, const Work& work, milliseconds patience) noexcept {
  OwnLane& own = lanes_[lane];
  own.deadline = Clock::now() + patience;
  return send_message(own.socket.get(), work);
}

int AfalgHelper::finish(unsigned lane) noexcept {
  LaneAnswer answer;
  const int error = receive_message(lanes_[lane].socket.get(), lanes_[lane].deadline, answer);
  return error != 0 ? error : answer.os_errno;
}

}  // namespace cryptimg
