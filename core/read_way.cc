// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/read_way.h"

#include <algorithm>

namespace cryptimg {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kTrialEvery = 64;
// The newest measurement counts one eighth, and none more than four times what was known: a thread
// that lost its core in the middle says little.
constexpr std::uint64_t kWeight = 8;
constexpr std::uint64_t kMaxJump = 4;

}  // namespace

ReadWay::Way ReadWay::choose() noexcept {
  const std::uint64_t view = view_cost_.load(kRelaxed);
  const std::uint64_t read = read_cost_.load(kRelaxed);
  const bool view_is_cheaper = view <= read;  // and where neither is known
  const bool is_trial =
      view == 0 || read == 0 || turn_.fetch_add(1, kRelaxed) % kTrialEvery == kTrialEvery - 1;
  if (is_trial && view != 0) {
    return read == 0 || view_is_cheaper ? Way::read : Way::view;
  }
  return view_is_cheaper ? Way::view : Way::read;
}

void ReadWay::note(Way way, std::uint64_t bytes, std::uint64_t took_ns) noexcept {
  std::atomic<std::uint64_t>& cost = way == Way::view ? view_cost_ : read_cost_;
  const std::uint64_t known = cost.load(kRelaxed);
  const std::uint64_t now = std::max<std::uint64_t>((took_ns << 20) / bytes, 1);
  const std::uint64_t next =
      known == 0 ? now : (known * (kWeight - 1) + std::min(now, known * kMaxJump)) / kWeight;
  cost.store(std::max<std::uint64_t>(next, 1), kRelaxed);
}

}  // namespace cryptimg
