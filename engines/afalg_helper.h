// SPDX-License-Identifier: GPL-3.0-or-later
//
// AfalgHelper: the process in which AF_ALG is used. An operation that the hardware never finishes
// leaves its thread in the kernel, where no signal reaches it, and the process with it; a daemon
// that holds /dev/fuse and the container must not be that process. So there is a helper, which
// holds neither, and which works on memory shared with its owner.
//
// The memory is divided into lanes. A lane is one operation socket's worth of work under way: what
// is sent, what is answered, the IVs, a socket to talk over, and a thread of the helper. An
// operation that fails or hangs has touched nothing but its lane.
//
// start() forks, so it is to be called before there are threads that matter; the child keeps
// nothing open but its sockets, and sees the content of no Secret. Thread-safe; a lane is used by
// one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "core/result.h"
#include "core/unique_fd.h"
#include "engines/afalg_kernel.h"

namespace cryptimg {

// Of one operation. A virtio-crypto device hangs for good above that (QEMU 7.2), and more than 64
// KiB makes no hardware faster.
inline constexpr std::size_t kLaneBytes = 65536;
inline constexpr std::size_t kLaneIvBytes = kLaneBytes / 512 * 16;  // one IV a sector

class AfalgHelper {
 public:
  using Clock = std::chrono::steady_clock;

  // What one lane shares with the helper.
  struct Lane {
    MutableBytes sent;    // kLaneBytes, to be filled before begin()
    MutableBytes answer;  // kLaneBytes, good once finish() has returned 0
    MutableBytes ivs;     // kLaneIvBytes
  };
  // `size_bytes` of the lane's `sent`, in operations of `step_bytes` one after the other, each with
  // its own IV of `ivs`.
  struct Work {
    std::uint32_t transform = 0;
    Direction direction = Direction::decrypt;
    bool has_iv = true;
    std::uint32_t size_bytes = 0;
    std::uint32_t step_bytes = 0;
  };
  struct Transform {
    std::uint32_t number = 0;
    std::size_t max_bytes = 0;  // of an operation: AlgTransform's, at most kLaneBytes
  };

  // Forks a helper with so many lanes. An open() that takes it longer than `patience` it never
  // does.
  static Result<std::unique_ptr<AfalgHelper>> start(const std::shared_ptr<const AlgKernel>& kernel,
                                                    unsigned lanes,
                                                    std::chrono::milliseconds patience);
  // Lets the helper end, and ends it where it does not. Where it cannot be ended, being stuck in
  // the kernel, leaves it behind: it holds nothing. Takes at most two seconds.
  ~AfalgHelper();
  AfalgHelper(const AfalgHelper&) = delete;
  AfalgHelper& operator=(const AfalgHelper&) = delete;

  // A driver's cipher with this key, until close(). Fails as AlgKernel::open, and with ETIMEDOUT
  // after `patience`, EPIPE where the helper is gone.
  Result<Transform> open(const std::string& driver, Bytes key);
  void close(std::uint32_t transform) noexcept;

  [[nodiscard]] unsigned lanes() const noexcept { return static_cast<unsigned>(lanes_.size()); }
  [[nodiscard]] const Lane& lane(unsigned index) const noexcept { return lanes_[index].shared; }

  // Has the helper do `work` on a lane, within `patience`; false where the helper is gone.
  [[nodiscard]] bool begin(unsigned lane, const Work& work,
                           std::chrono::milliseconds patience) noexcept;
  // Waits for it, until its patience is over. Returns 0, the errno of what failed, ETIMEDOUT
  // or EPIPE. After the latter two the lane must not be used again: the kernel may still write to
  // it.
  [[nodiscard]] int finish(unsigned lane) noexcept;

  [[nodiscard]] pid_t process() const noexcept { return process_; }

 private:
  struct OwnLane {
    Lane shared;
    UniqueFd socket;
    Clock::time_point deadline;
  };
  // Wipes and unmaps the memory, which the helper, if it is stuck, goes on having.
  struct Mapping {
    void* address = nullptr;
    std::size_t size_bytes = 0;
    Mapping() = default;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();
  };

  explicit AfalgHelper(std::chrono::milliseconds patience) : patience_(patience) {}
  Status map(unsigned lanes);

  const std::chrono::milliseconds patience_;
  Mapping mapping_;
  MutableBytes key_;  // shared: where a key lies while it is being handed over
  std::vector<OwnLane> lanes_;
  UniqueFd control_;
  std::mutex control_mutex_;      // one question at a time
  bool control_is_lost_ = false;  // guarded by control_mutex_: an answer is still to come
  pid_t process_ = -1;
};

}  // namespace cryptimg
