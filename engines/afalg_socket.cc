// SPDX-License-Identifier: GPL-3.0-or-later
//
// AlgKernel over the sockets themselves. An operation is one sendmsg (direction, IV and data) and
// one read, which blocks until the driver has done the whole of it.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <linux/if_alg.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/unique_fd.h"
#include "engines/afalg_kernel.h"
#include "engines/block_algebra.h"

namespace cryptimg {
namespace {

class SocketOperation final : public AlgOperation {
 public:
  explicit SocketOperation(UniqueFd fd) : fd_(std::move(fd)) {}

  ssize_t send(Direction direction, Bytes iv, Bytes data) noexcept override {
    constexpr std::size_t kIvBytes = sizeof(af_alg_iv) + kCipherBlockBytes;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(__u32)) + CMSG_SPACE(kIvBytes)> control{};
    iovec vector = {const_cast<std::byte*>(data.data()), data.size()};  // only read by sendmsg
    msghdr message = {};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(__u32)) + (iv.empty() ? 0 : CMSG_SPACE(kIvBytes));

    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_ALG;
    header->cmsg_type = ALG_SET_OP;
    header->cmsg_len = CMSG_LEN(sizeof(__u32));
    const __u32 operation = direction == Direction::encrypt ? ALG_OP_ENCRYPT : ALG_OP_DECRYPT;
    std::memcpy(CMSG_DATA(header), &operation, sizeof operation);
    if (!iv.empty()) {
      header = CMSG_NXTHDR(&message, header);
      header->cmsg_level = SOL_ALG;
      header->cmsg_type = ALG_SET_IV;
      header->cmsg_len = CMSG_LEN(kIvBytes);
      const auto length = static_cast<__u32>(iv.size());
      std::memcpy(CMSG_DATA(header), &length, sizeof length);
      std::memcpy(CMSG_DATA(header) + sizeof length, iv.data(), iv.size());
    }
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
  }

  ssize_t receive(MutableBytes target) noexcept override {
    const ssize_t got = ::read(fd_.get(), target.data(), target.size());
    return got < 0 ? -errno : got;
  }

 private:
  const UniqueFd fd_;
};

// What a socket's buffer of this kind (SO_SNDBUF, SO_RCVBUF) holds, as af_alg counts it.
std::size_t buffer_bytes(int fd, int option) {
  constexpr std::size_t kPageBytes = 4096;
  int size = 0;
  socklen_t length = sizeof size;
  if (::getsockopt(fd, SOL_SOCKET, option, &size, &length) != 0 || size < 0) {
    return kPageBytes;
  }
  return std::max(static_cast<std::size_t>(size) / kPageBytes * kPageBytes, kPageBytes);
}

class SocketTransform final : public AlgTransform {
 public:
  explicit SocketTransform(UniqueFd fd) : fd_(std::move(fd)) {
    UniqueFd operation(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (operation.valid()) {
      max_bytes_ = std::min(buffer_bytes(operation.get(), SO_SNDBUF),
                            buffer_bytes(operation.get(), SO_RCVBUF));
    }
  }

  Result<std::unique_ptr<AlgOperation>> new_operation() noexcept override {
    UniqueFd operation(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!operation.valid()) {
      return fail_errno(errno, "cannot make an operation socket");
    }
    return std::make_unique<SocketOperation>(std::move(operation));
  }

  [[nodiscard]] std::size_t max_bytes() const noexcept override { return max_bytes_; }

 private:
  const UniqueFd fd_;
  std::size_t max_bytes_ = buffer_bytes(-1, SO_SNDBUF);
};

Result<UniqueFd> alg_socket() {
  UniqueFd fd(::socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    const int error = errno;
    return fail(Errc::unavailable,
                error == EAFNOSUPPORT
                    ? std::string("this kernel has no AF_ALG sockets")
                    : std::string("AF_ALG sockets are not allowed here: ") + std::strerror(error),
                error);
  }
  return fd;
}

class SystemAlgKernel final : public AlgKernel {
 public:
  [[nodiscard]] Status available() const override {
    CRYPTIMG_RETURN_IF_ERROR(alg_socket());
    return {};
  }

  [[nodiscard]] std::string proc_crypto() const override {
    std::ifstream file("/proc/crypto");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  [[nodiscard]] Result<std::unique_ptr<AlgTransform>> open(const std::string& driver,
                                                           Bytes key) const override {
    CRYPTIMG_ASSIGN_OR_RETURN(UniqueFd fd, alg_socket());
    sockaddr_alg address = {};
    address.salg_family = AF_ALG;
    constexpr const char* kType = "skcipher";
    std::memcpy(address.salg_type, kType, std::strlen(kType));
    if (driver.size() >= sizeof address.salg_name) {
      return fail(Errc::not_found, "no driver has so long a name", ENOENT);
    }
    std::memcpy(address.salg_name, driver.data(), driver.size());
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return fail_errno(errno, "the kernel offers no driver " + driver);
    }
    if (::setsockopt(fd.get(), SOL_ALG, ALG_SET_KEY, key.data(),
                     static_cast<socklen_t>(key.size())) != 0) {
      return fail_errno(errno, "the driver " + driver + " refuses a key of " +
                                   std::to_string(key.size() * 8) + " bits");
    }
    return std::make_unique<SocketTransform>(std::move(fd));
  }
};

}  // namespace

std::shared_ptr<const AlgKernel> system_alg_kernel() {
  return std::make_shared<SystemAlgKernel>();
}

}  // namespace cryptimg
