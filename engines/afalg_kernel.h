// SPDX-License-Identifier: GPL-3.0-or-later
//
// The kernel's AF_ALG sockets for block ciphers (Documentation/crypto/userspace-if.rst in Linux),
// as thinly as the engine needs them, so that tests can put a kernel of their own in their place.
// What fails says so by an errno. Nothing here judges: a driver may take less than it is sent,
// answer less than it was asked for, answer wrongly, or never.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <sys/types.h>

#include "core/bytes.h"
#include "core/cipher_engine.h"
#include "core/result.h"

namespace cryptimg {

// One operation socket: one operation at a time, by one thread at a time.
class AlgOperation {
 public:
  virtual ~AlgOperation() = default;
  // Hands over an operation's bytes, without waiting for room. `iv` is empty for ciphers that have
  // none. Returns how many bytes were taken, or -errno.
  virtual ssize_t send(Direction direction, Bytes iv, Bytes data) noexcept = 0;
  // Waits for the result and takes it. Returns how many bytes came, or -errno.
  virtual ssize_t receive(MutableBytes target) noexcept = 0;
};

// A cipher of one driver with its key set. Any thread.
class AlgTransform {
 public:
  virtual ~AlgTransform() = default;
  // -errno in os_errno where the kernel refuses.
  virtual Result<std::unique_ptr<AlgOperation>> new_operation() noexcept = 0;
  // The most that its operations take at once, by the socket's buffers; at least a page.
  [[nodiscard]] virtual std::size_t max_bytes() const noexcept = 0;
};

// Immutable, any thread, any process forked from the one that made it.
class AlgKernel {
 public:
  virtual ~AlgKernel() = default;
  // unavailable, with the reason, where there are no such sockets for this process.
  [[nodiscard]] virtual Status available() const = 0;
  // The text of /proc/crypto; empty where it cannot be read.
  [[nodiscard]] virtual std::string proc_crypto() const = 0;
  // Binds to the driver of this name (which may load a module, or make a template) and sets the
  // key, which is only read during the call. not_found where there is no such driver.
  [[nodiscard]] virtual Result<std::unique_ptr<AlgTransform>> open(const std::string& driver,
                                                                   Bytes key) const = 0;
};

std::shared_ptr<const AlgKernel> system_alg_kernel();

}  // namespace cryptimg
