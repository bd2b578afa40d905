// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/signal_stack.h"

#include <cstddef>
#include <utility>

#include <sys/auxv.h>

namespace cryptimg {
namespace {

// What the kernel puts there grows with the CPU's registers.
std::size_t stack_bytes() {
  constexpr std::size_t kHandlerBytes = 8U << 10;
#ifdef AT_MINSIGSTKSZ
  return kHandlerBytes + ::getauxval(AT_MINSIGSTKSZ);
#else
  return kHandlerBytes;
#endif
}

}  // namespace

SignalStack::SignalStack() noexcept {
  auto memory = Secret::allocate(stack_bytes());
  if (!memory) {
    return;
  }
  stack_t stack = {};
  stack.ss_sp = memory->mutable_bytes().data();
  stack.ss_size = memory->size();
  if (::sigaltstack(&stack, &previous_) == 0) {
    memory_ = std::move(*memory);
  }
}

SignalStack::~SignalStack() {
  if (!memory_.empty()) {
    ::sigaltstack(&previous_, nullptr);
  }
}

}  // namespace cryptimg
