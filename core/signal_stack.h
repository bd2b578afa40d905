// SPDX-License-Identifier: GPL-3.0-or-later
//
// SignalStack: where the signal handlers of one thread run. The kernel saves the interrupted
// thread's registers there, which may hold round keys or plaintext: so it is guarded memory, locked
// and wiped, instead of the thread's own stack. For handlers installed with SA_ONSTACK. Made and
// destroyed by the thread it is for.
#pragma once

#include <csignal>

#include "core/secret.h"

namespace cryptimg {

class SignalStack {
 public:
  // Without memory the handlers run on the thread's own stack as before.
  SignalStack() noexcept;
  // Wipes it; what was there before comes back. REQUIRES: not called from a handler.
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  Secret memory_;
  stack_t previous_ = {};
};

}  // namespace cryptimg
