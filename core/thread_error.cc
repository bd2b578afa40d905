// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/thread_error.h"

#include <cerrno>
#include <cstddef>

#include <pthread.h>
#include <sys/mman.h>

namespace cryptimg {
namespace {

bool has_room_for_a_stack() {
  std::size_t size_bytes = 0;
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) {
    return false;
  }
  ::pthread_attr_getstacksize(&attributes, &size_bytes);
  ::pthread_attr_destroy(&attributes);
  void* const stack =
      ::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) {
    return false;
  }
  ::munmap(stack, size_bytes);
  return true;
}

}  // namespace

Error thread_error(const std::string& what, const std::system_error& cause) {
  const int code = cause.code().value();
  if (code == ENOMEM || (code == EAGAIN && !has_room_for_a_stack())) {
    return {Errc::out_of_memory, ENOMEM,
            what +
                ": there is no memory for their stacks; raise the limit (ulimit -v) or ask for "
                "fewer workers"};
  }
  return {Errc::unavailable, code, what + "; raise the limit on processes (ulimit -u)"};
}

}  // namespace cryptimg
