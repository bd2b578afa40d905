// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/shrink.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cryptimg::model {

Shrunk shrink(Trace trace, const std::function<bool(const Trace&)>& fails,
              std::chrono::steady_clock::time_point until) {
  Shrunk result;
  result.runs = 1;
  result.is_reproduced = fails(trace);
  result.trace = std::move(trace);
  if (!result.is_reproduced) {
    return result;
  }
  std::size_t run_length = std::max<std::size_t>(result.trace.size() / 2, 1);
  bool is_any_removed = false;
  std::size_t begin = 0;
  while (result.trace.size() > 1 && std::chrono::steady_clock::now() < until) {
    if (begin >= result.trace.size()) {
      if (run_length == 1 && !is_any_removed) {
        break;
      }
      run_length = std::max<std::size_t>(run_length / 2, 1);
      is_any_removed = false;
      begin = 0;
    }
    const std::size_t end = std::min(begin + run_length, result.trace.size());
    Trace shorter(result.trace.begin(), std::next(result.trace.begin(), static_cast<long>(begin)));
    shorter.insert(shorter.end(), std::next(result.trace.begin(), static_cast<long>(end)),
                   result.trace.end());
    ++result.runs;
    if (fails(shorter)) {
      result.trace = std::move(shorter);
      is_any_removed = true;
    } else {
      begin = end;
    }
  }
  return result;
}

}  // namespace cryptimg::model
