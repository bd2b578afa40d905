// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_alg_kernel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/raw_cipher.h"

namespace cryptimg::test {

struct FakeAlgKernel::Shared {
  std::atomic<unsigned> fault{0};
  std::atomic<unsigned> first{0};
  std::atomic<unsigned> count{0};
  std::atomic<unsigned> operations{0};
  std::atomic<unsigned> faults{0};
  std::atomic<unsigned> opened{0};
  std::atomic<unsigned> under_way{0};
  std::atomic<unsigned> most_at_once{0};
  std::atomic<int> open_errno{0};
  std::atomic<bool> is_forbidden{false};
};

namespace {

using Shared = FakeAlgKernel::Shared;
using std::chrono::milliseconds;

[[noreturn]] void sleep_for_good() {
  for (;;) {
    ::pause();
  }
}

Shared* make_shared_memory() {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::runtime_error("no shared memory");
  }
  return new (memory) Shared;
}

class FakeOperation final : public AlgOperation {
 public:
  FakeOperation(AlgMode mode, std::vector<std::byte> key, Shared& shared)
      : mode_(mode), key_(std::move(key)), shared_(shared) {}

  ssize_t send(Direction direction, Bytes iv, Bytes data) noexcept override {
    fault_ = next_fault();
    if (fault_ == AlgFault::busy) {
      return -EBUSY;
    }
    if (fault_ == AlgFault::again) {
      return -EAGAIN;
    }
    direction_ = direction;
    iv_.assign(iv.begin(), iv.end());
    const std::size_t taken = fault_ == AlgFault::short_send ? data.size() / 2 : data.size();
    // As the kernel does: what a failed operation left behind is still there.
    data_.insert(data_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(taken));
    return static_cast<ssize_t>(taken);
  }

  ssize_t receive(MutableBytes target) noexcept override {
    const unsigned now = shared_.under_way.fetch_add(1) + 1;
    unsigned most = shared_.most_at_once.load();
    while (most < now && !shared_.most_at_once.compare_exchange_weak(most, now)) {
    }
    const ssize_t got = answer(target);
    shared_.under_way.fetch_sub(1);
    return got;
  }

 private:
  AlgFault next_fault() {
    const unsigned number = shared_.operations.fetch_add(1) + 1;
    const unsigned first = shared_.first.load();
    const auto fault = static_cast<AlgFault>(shared_.fault.load());
    if (fault == AlgFault::none || number < first || number - first >= shared_.count.load()) {
      return AlgFault::none;
    }
    shared_.faults.fetch_add(1);
    return fault;
  }

  ssize_t answer(MutableBytes target) {
    switch (fault_) {
      case AlgFault::no_memory:
        return -ENOMEM;
      case AlgFault::nothing:
        return 0;
      case AlgFault::hang:
        sleep_for_good();
      case AlgFault::die:
        ::_exit(1);
      default:
        break;
    }
    // Long enough that operations on other lanes begin meanwhile.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (data_.size() < target.size() ||
        !raw_operation(mode_, key_, direction_, iv_, Bytes(data_).first(target.size()), target)) {
      return -EINVAL;
    }
    data_.erase(data_.begin(), data_.begin() + static_cast<std::ptrdiff_t>(target.size()));
    if (fault_ == AlgFault::lie) {
      target[target.size() / 2] ^= std::byte{0x10};
    }
    return static_cast<ssize_t>(fault_ == AlgFault::short_receive ? target.size() / 2
                                                                  : target.size());
  }

  const AlgMode mode_;
  const std::vector<std::byte> key_;
  Shared& shared_;
  AlgFault fault_ = AlgFault::none;
  Direction direction_ = Direction::encrypt;
  std::vector<std::byte> iv_;
  std::vector<std::byte> data_;
};

class FakeTransform final : public AlgTransform {
 public:
  FakeTransform(AlgMode mode, Bytes key, std::size_t max_bytes, Shared& shared)
      : mode_(mode), key_(key.begin(), key.end()), max_bytes_(max_bytes), shared_(shared) {}
  Result<std::unique_ptr<AlgOperation>> new_operation() noexcept override {
    return std::make_unique<FakeOperation>(mode_, key_, shared_);
  }
  [[nodiscard]] std::size_t max_bytes() const noexcept override { return max_bytes_; }

 private:
  const AlgMode mode_;
  const std::vector<std::byte> key_;
  const std::size_t max_bytes_;
  Shared& shared_;
};

}  // namespace

FakeAlgKernel::FakeAlgKernel(AlgMode mode, std::size_t max_bytes)
    : mode_(mode), max_bytes_(max_bytes), shared_(make_shared_memory()) {}

FakeAlgKernel::~FakeAlgKernel() {
  ::munmap(shared_, sizeof *shared_);
}

void FakeAlgKernel::order(AlgFault fault, unsigned nth, unsigned count) const {
  shared_->fault = static_cast<unsigned>(AlgFault::none);
  shared_->first = shared_->operations + nth;
  shared_->count = count;
  shared_->fault = static_cast<unsigned>(fault);
}
void FakeAlgKernel::order_open(int os_errno) const {
  shared_->open_errno = os_errno;
}
void FakeAlgKernel::forbid() const {
  shared_->is_forbidden = true;
}

unsigned FakeAlgKernel::operations() const {
  return shared_->operations;
}
unsigned FakeAlgKernel::faults() const {
  return shared_->faults;
}
unsigned FakeAlgKernel::opened() const {
  return shared_->opened;
}
unsigned FakeAlgKernel::most_at_once() const {
  return shared_->most_at_once;
}

std::string FakeAlgKernel::driver() const {
  return std::string(alg_name(mode_).substr(0, 3)) + "-aes-fake";
}

Status FakeAlgKernel::available() const {
  if (shared_->is_forbidden) {
    return fail(Errc::unavailable, "this kernel has no AF_ALG sockets", EAFNOSUPPORT);
  }
  return {};
}

std::string FakeAlgKernel::proc_crypto() const {
  return "name         : " + std::string(alg_name(mode_)) + "\ndriver       : " + driver() +
         "\npriority     : 300\nselftest     : passed\ninternal     : no\n"
         "type         : skcipher\nasync        : yes\n\n";
}

Result<std::unique_ptr<AlgTransform>> FakeAlgKernel::open(const std::string& driver,
                                                          Bytes key) const {
  const int error = shared_->open_errno;
  if (error == -1) {
    sleep_for_good();
  }
  if (error != 0) {
    return fail_errno(error, "an ordered fault");
  }
  if (driver != this->driver()) {
    return fail_errno(ENOENT, "no such driver");
  }
  if (raw_cipher(mode_, key.size()) == nullptr) {
    return fail_errno(EINVAL, "no such key");
  }
  shared_->opened.fetch_add(1);
  return std::make_unique<FakeTransform>(mode_, key, max_bytes_, *shared_);
}

}  // namespace cryptimg::test
