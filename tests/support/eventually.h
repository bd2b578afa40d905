// SPDX-License-Identifier: GPL-3.0-or-later
//
// eventually(): waits for what another thread does, without depending on how long that takes.
#pragma once

#include <chrono>
#include <thread>

namespace cryptimg::test {

// Whether `condition` becomes true; asks again and again, and gives up after `limit`. A condition
// that ought to become true is given the long default: only a failing test waits so long.
template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace cryptimg::test
