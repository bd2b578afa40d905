// SPDX-License-Identifier: GPL-3.0-or-later
//
// LoopDevice: a file attached to a loop device for the life of the object. Only root can; name() is
// empty where it could not be had.
#pragma once

#include <string>

#include "tests/support/command.h"

namespace cryptimg::testing {

class LoopDevice {
 public:
  explicit LoopDevice(const std::string& file) {
    const auto result = run_command({"losetup", "--find", "--show", file});
    name_ = result.ok() ? result.output.substr(0, result.output.find('\n')) : "";
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  ~LoopDevice() {
    if (!name_.empty()) {
      run_command({"losetup", "--detach", name_});
    }
  }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace cryptimg::testing
