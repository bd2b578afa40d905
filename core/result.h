// SPDX-License-Identifier: GPL-3.0-or-later
//
// The project's error values. Every fallible function returns Status or Result<T>; no exception
// crosses a module. An Error says what happened in terms of the service; only fuse/ turns it into
// an errno or an exit code. Value types: safe to copy between threads.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include <tl/expected.hpp>

namespace cryptimg {

enum class Errc : std::uint8_t {
  io,                // a device or file failed; os_errno says how
  no_space,          // the file system is full, or the write lies past the image's end
  corrupt,           // a header that contradicts itself, its checksum or its device
  wrong_key,         // no keyslot opens with this passphrase or key file
  unsupported,       // well-formed, but not something this program serves
  unavailable,       // an engine or facility that this machine lacks
  invalid_argument,  // the caller's parameters
  out_of_range,      // outside the image
  out_of_memory,
  not_found,
  exists,
  busy,  // held by another mount, loop device or process
  permission,
  read_only,
  shutting_down,
};

// One failure. `message` is one clear sentence for a person, without a final full stop, never with
// key material; it is empty on the data path, where code and os_errno say everything.
struct [[nodiscard]] Error {
  Errc code = Errc::io;
  int os_errno = 0;  // 0 where no system call was at fault
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Errc code, std::string message = {}, int os_errno = 0) {
  return tl::unexpected<Error>(Error{code, os_errno, std::move(message)});
}

// The Errc that fits a failed system call. Everything not listed is `io`.
inline Errc errc_from_errno(int os_errno) {
  switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
      return Errc::no_space;
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return Errc::not_found;
    case EEXIST:
      return Errc::exists;
    case EBUSY:
    case ETXTBSY:
      return Errc::busy;
    case EACCES:
    case EPERM:
      return Errc::permission;
    case EROFS:
      return Errc::read_only;
    case ENOMEM:
      return Errc::out_of_memory;
    case EINVAL:
      return Errc::invalid_argument;
    default:
      return Errc::io;
  }
}

// A failed system call: "<what>: <strerror>". `os_errno` is read before anything else may change
// errno, so pass errno itself.
inline tl::unexpected<Error> fail_errno(int os_errno, const std::string& what) {
  return fail(errc_from_errno(os_errno), what + ": " + std::strerror(os_errno), os_errno);
}

}  // namespace cryptimg

#define CRYPTIMG_CONCAT_INNER(a, b) a##b
#define CRYPTIMG_CONCAT(a, b) CRYPTIMG_CONCAT_INNER(a, b)

// Returns the Error of `expr` (a Status or Result) from the enclosing function.
#define CRYPTIMG_RETURN_IF_ERROR(expr)                           \
  do {                                                           \
    auto cryptimg_status = (expr);                               \
    if (!cryptimg_status) {                                      \
      return tl::unexpected(std::move(cryptimg_status.error())); \
    }                                                            \
  } while (false)

// `decl = value of expr`, or returns the Error from the enclosing function.
#define CRYPTIMG_ASSIGN_OR_RETURN(decl, expr) \
  CRYPTIMG_ASSIGN_OR_RETURN_INNER(CRYPTIMG_CONCAT(cryptimg_result_, __LINE__), decl, expr)
#define CRYPTIMG_ASSIGN_OR_RETURN_INNER(tmp, decl, expr) \
  auto tmp = (expr);                                     \
  if (!tmp) {                                            \
    return tl::unexpected(std::move(tmp.error()));       \
  }                                                      \
  decl = std::move(*tmp)
