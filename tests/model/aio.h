// SPDX-License-Identifier: GPL-3.0-or-later
//
// Aio: the kernel's asynchronous I/O, by its system calls. Direct reads and writes given to it
// together are under way together, also several writes of one file. One thread's.
#pragma once

#include <cstdint>
#include <span>

#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryptimg::model {

class Aio {
 public:
  explicit Aio(unsigned depth) { valid_ = ::syscall(SYS_io_setup, depth, &context_) == 0; }
  Aio(const Aio&) = delete;
  Aio& operator=(const Aio&) = delete;
  // Waits for what is under way.
  ~Aio() {
    if (valid_) {
      ::syscall(SYS_io_destroy, context_);
    }
  }

  // False where the machine has no more of them, or none at all.
  [[nodiscard]] bool valid() const { return valid_; }
  // The number started, or -1 with errno. The blocks are not needed afterwards, the buffers are.
  long submit(std::span<iocb*> blocks) {
    return ::syscall(SYS_io_submit, context_, static_cast<long>(blocks.size()), blocks.data());
  }
  // Waits for one, at most 60 seconds: 1 with `event` filled in, else 0 or -1.
  long wait(io_event& event) {
    timespec limit = {60, 0};
    return ::syscall(SYS_io_getevents, context_, 1L, 1L, &event, &limit);
  }

 private:
  aio_context_t context_ = 0;
  bool valid_ = false;
};

}  // namespace cryptimg::model
