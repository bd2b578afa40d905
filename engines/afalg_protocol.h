// SPDX-License-Identifier: GPL-3.0-or-later
//
// What AfalgHelper and its process say to each other: one datagram each way over a socket pair a
// lane, and one for control. Bulk data and keys lie in the memory they share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "engines/afalg_helper.h"
#include "engines/afalg_kernel.h"

namespace cryptimg {

inline constexpr std::size_t kMaxAlgKeyBytes = 64;
inline constexpr std::size_t kMaxDriverNameBytes = 128;

struct ControlRequest {
  enum class Command : std::uint32_t { open, close };
  Command command = Command::open;
  std::uint32_t number = 0;     // close: which transform
  std::uint32_t key_bytes = 0;  // open: so many of the shared key
  std::array<char, kMaxDriverNameBytes> driver{};
};
struct ControlAnswer {
  std::int32_t os_errno = 0;
  std::uint32_t number = 0;
  std::uint64_t max_bytes = 0;
};
struct LaneAnswer {
  std::int32_t os_errno = 0;
};
static_assert(std::is_trivially_copyable_v<ControlRequest> &&
              std::is_trivially_copyable_v<ControlAnswer> &&
              std::is_trivially_copyable_v<AfalgHelper::Work> &&
              std::is_trivially_copyable_v<LaneAnswer>);

// The child's side of the fork.
struct HelperProcess {
  std::shared_ptr<const AlgKernel> kernel;
  MutableBytes key;
  std::vector<AfalgHelper::Lane> lanes;  // `answer` is the child's to write
  std::vector<int> lane_sockets;
  int control_socket = -1;
};

// Works until the other side of the control socket is closed; ends the process.
[[noreturn]] void run_helper_process(const HelperProcess& process) noexcept;

}  // namespace cryptimg
