// SPDX-License-Identifier: GPL-3.0-or-later
//
// Makes a failing trace short: removes runs of operations as long as it goes on failing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "tests/model/operations.h"

namespace cryptimg::model {

struct Shrunk {
  Trace trace;
  std::size_t runs = 0;
  bool is_reproduced =
      false;  // false: the whole trace did not fail again; it is returned as it was
};

// `fails` runs a trace from a fresh image. What is returned failed when it was last run; nothing in
// it can be left out, unless the time ran out before that was known. The run under way when the
// time runs out is finished.
Shrunk shrink(Trace trace, const std::function<bool(const Trace&)>& fails,
              std::chrono::steady_clock::time_point until);

}  // namespace cryptimg::model
