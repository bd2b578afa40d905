// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/crypt_device.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <libcryptsetup.h>

#include "core/container_file.h"
#include "core/text.h"
#include "core/unique_fd.h"

namespace cryptimg {
namespace {

constexpr std::size_t kLibraryDescriptors = 8;

// libcryptsetup knows the files only by the names it was given, which mean nothing to a user.
std::string without_proc_paths(std::string text) {
  constexpr std::string_view kPrefix = "/proc/self/fd/";
  for (std::size_t at = text.find(kPrefix); at != std::string::npos; at = text.find(kPrefix, at)) {
    const std::size_t end = text.find_first_not_of("0123456789", at + kPrefix.size());
    text.replace(at, (end == std::string::npos ? text.size() : end) - at, "file");
  }
  return text;
}

extern "C" void keep_last_error(int level, const char* message, void* target) {
  if (target == nullptr || level != CRYPT_LOG_ERROR || message == nullptr) {
    return;
  }
  std::string_view text(message);
  while (!text.empty() && (text.back() == '\n' || text.back() == '.')) {
    text.remove_suffix(1);
  }
  *static_cast<std::string*>(target) = printable(without_proc_paths(std::string(text)));
}

// Process-wide settings. With metadata locking off, libcryptsetup also leaves damaged headers
// alone; with it on, loading one rewrites it from its copy.
void configure_library() {
  static const bool kDone = [] {
    crypt_set_log_callback(nullptr, keep_last_error, nullptr);
    crypt_metadata_locking(nullptr, 0);
    crypt_token_external_disable();
    return true;
  }();
  static_cast<void>(kDone);
}

// libcryptsetup tells a full descriptor table from a damaged header no better than by a wrong
// errno; so what it needs at most is tried out before.
Status require_descriptors(int any_fd) {
  std::array<UniqueFd, kLibraryDescriptors> spare;
  for (UniqueFd& fd : spare) {
    fd.reset(::fcntl(any_fd, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) {
      return fail_errno(errno,
                        "cannot read the container's header; raise the limit on open files "
                        "(ulimit -n)");
    }
  }
  return {};
}

}  // namespace

void CryptDevice::Free::operator()(crypt_device* device) const {
  crypt_free(device);
}

Result<CryptDevice> CryptDevice::over(int header_fd, std::optional<int> data_fd) {
  CRYPTIMG_RETURN_IF_ERROR(require_descriptors(header_fd));
  configure_library();
  crypt_device* device = nullptr;
  const int code = data_fd ? crypt_init_data_device(&device, proc_path(header_fd).c_str(),
                                                    proc_path(*data_fd).c_str())
                           : crypt_init(&device, proc_path(header_fd).c_str());
  if (code < 0) {
    return fail_errno(-code, "libcryptsetup cannot use the container");
  }
  CryptDevice result;
  result.last_error_ = std::make_unique<std::string>();
  result.device_.reset(device);
  crypt_set_log_callback(device, keep_last_error, result.last_error_.get());
  return result;
}

std::string CryptDevice::reason(int return_code) const {
  return ": " +
         (last_error_->empty() ? std::string(std::strerror(std::abs(return_code))) : *last_error_);
}

}  // namespace cryptimg
