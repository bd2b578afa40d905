// SPDX-License-Identifier: GPL-3.0-or-later
//
// FakeAlgKernel: a kernel that offers one AES driver, in one mode, and goes wrong on order. It
// works in the process of the engine's helper; its orders and counts lie in memory that the test
// shares. Thread-safe. Must be made before the helper is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "engines/afalg_drivers.h"
#include "engines/afalg_kernel.h"

namespace cryptimg::test {

enum class AlgFault : unsigned {
  none,
  busy,           // send: EBUSY
  again,          // send: EAGAIN
  no_memory,      // receive: ENOMEM
  short_send,     // half of the bytes are taken
  short_receive,  // half of the result comes
  nothing,        // a result of no bytes
  lie,            // one bit of the result is wrong
  hang,           // receive never returns
  die,            // the process ends
};

class FakeAlgKernel final : public AlgKernel {
 public:
  // The driver is called "cbc-aes-fake" (or ecb, xts), is asynchronous, and takes `max_bytes` at
  // once.
  explicit FakeAlgKernel(AlgMode mode, std::size_t max_bytes = 131072);
  ~FakeAlgKernel() override;
  FakeAlgKernel(const FakeAlgKernel&) = delete;
  FakeAlgKernel& operator=(const FakeAlgKernel&) = delete;

  // The `nth` operation that begins after this call (1 is the next) and the `count - 1` after it
  // suffer `fault`. Replaces what was ordered before.
  void order(AlgFault fault, unsigned nth = 1, unsigned count = 1) const;
  // From now on setting a key fails with this errno, or where it is -1 never ends.
  void order_open(int os_errno) const;
  // From now on there are no AF_ALG sockets.
  void forbid() const;

  // Operations begun, faults among them, transforms opened.
  [[nodiscard]] unsigned operations() const;
  [[nodiscard]] unsigned faults() const;
  [[nodiscard]] unsigned opened() const;
  // The most operations that were under way at once.
  [[nodiscard]] unsigned most_at_once() const;

  [[nodiscard]] std::string driver() const;
  [[nodiscard]] Status available() const override;
  [[nodiscard]] std::string proc_crypto() const override;
  [[nodiscard]] Result<std::unique_ptr<AlgTransform>> open(const std::string& driver,
                                                           Bytes key) const override;

  struct Shared;  // what lies in shared memory

 private:
  const AlgMode mode_;
  const std::size_t max_bytes_;
  Shared* const shared_;
};

}  // namespace cryptimg::test
