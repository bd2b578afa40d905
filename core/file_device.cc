// SPDX-License-Identifier: GPL-3.0-or-later
//
// The BlockDevice over a descriptor: pread, pwrite and a mapping, through the page cache or past
// it.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/block_device.h"
#include "core/buffer_pool.h"
#include "core/extent.h"
#include "core/mapped_file.h"

namespace cryptimg {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
// Direct I/O: what every device's DMA is content with, and where other addresses are copied.
constexpr std::uintptr_t kDirectAlignment = 4096;
constexpr std::size_t kBounceBytes = 256U << 10;
constexpr std::size_t kBounceBuffers = 4;

tl::unexpected<Error> fail_io(int os_errno) {
  return fail(errc_from_errno(os_errno), {}, os_errno);
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * kNanosecondsPerSecond + time.tv_nsec;
}

class FileDevice final : public BlockDevice {
 public:
  FileDevice(UniqueFd file, std::uint64_t data_offset_bytes, std::uint64_t size_bytes, BackingIo io,
             std::vector<UniqueFd> kept, std::unique_ptr<BufferPool> bounce)
      : file_(std::move(file)),
        kept_(std::move(kept)),
        data_offset_bytes_(data_offset_bytes),
        size_bytes_(size_bytes),
        bounce_(std::move(bounce)) {
    struct stat status {};
    is_block_device_ = ::fstat(file_.get(), &status) == 0 && S_ISBLK(status.st_mode);
    if (io == BackingIo::automatic || io == BackingIo::mapped) {
      mapping_ = MappedFile::create(file_.get(), data_offset_bytes, size_bytes);
    }
  }

  Status read(std::uint64_t offset_bytes, MutableBytes target) noexcept override {
    if (!inside(offset_bytes, target.size(), size_bytes_)) {
      return fail_io(EIO);
    }
    return in_pieces(offset_bytes, target, [this](off_t position, MutableBytes piece) {
      return is_direct(piece) ? read_all(position, piece) : read_bounced(position, piece);
    });
  }

  Bytes view(std::uint64_t offset_bytes, std::size_t length_bytes) noexcept override {
    if (mapping_ == nullptr || !inside(offset_bytes, length_bytes, size_bytes_)) {
      return {};
    }
    return mapping_->view(offset_bytes, length_bytes);
  }

  // What is not in the page cache is not read by a call that may not wait; the first byte speaks
  // for the range.
  bool fetch_ahead(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    if (bounce_ != nullptr || !inside(offset_bytes, length_bytes, size_bytes_)) {
      return false;
    }
    const auto position = static_cast<off_t>(data_offset_bytes_ + offset_bytes);
    std::byte first{};
    iovec target = {&first, sizeof first};
    return ::preadv2(file_.get(), &target, 1, position, RWF_NOWAIT) < 0 && errno == EAGAIN &&
           ::posix_fadvise(file_.get(), position, static_cast<off_t>(length_bytes),
                           POSIX_FADV_WILLNEED) == 0;
  }

  bool view_held(std::uint64_t offset_bytes, std::size_t length_bytes) noexcept override {
    return mapping_->still_valid() && check_exists(offset_bytes, length_bytes).has_value();
  }

  bool reaches(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const std::int64_t tick = nanoseconds(now);
    if (known_at_tick_.load(std::memory_order_acquire) == tick) {
      return inside(offset_bytes, length_bytes, known_bytes_.load(std::memory_order_relaxed));
    }
    const Result<std::uint64_t> there = bytes_there();
    if (!there) {
      return false;
    }
    known_bytes_.store(*there, std::memory_order_relaxed);
    known_at_tick_.store(tick, std::memory_order_release);
    return inside(offset_bytes, length_bytes, *there);
  }

  Status write(std::uint64_t offset_bytes, Bytes source) noexcept override {
    CRYPTIMG_RETURN_IF_ERROR(check_exists(offset_bytes, source.size()));
    CRYPTIMG_RETURN_IF_ERROR(in_pieces(offset_bytes, source, [this](off_t position, Bytes piece) {
      return is_direct(piece) ? write_all(position, piece) : write_bounced(position, piece);
    }));
    if (is_block_device_) {
      note_write();
    }
    return {};
  }

  Status flush() noexcept override {
    while (::fdatasync(file_.get()) != 0) {
      if (errno != EINTR) {
        return fail_io(errno);
      }
    }
    return {};
  }

  Status allocate(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept override {
    CRYPTIMG_RETURN_IF_ERROR(check_exists(offset_bytes, length_bytes));
    while (::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(data_offset_bytes_ + offset_bytes),
                       static_cast<off_t>(length_bytes)) != 0) {
      const int os_errno = errno;
      if (os_errno == EOPNOTSUPP || os_errno == ENOSYS || os_errno == ENODEV) {
        return fail(Errc::unsupported, {}, os_errno);
      }
      if (os_errno != EINTR) {
        return fail_io(os_errno);
      }
    }
    return {};
  }

  timespec modified_time() noexcept override {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) {
      return {};
    }
    // A device node's own time does not move when the device is written.
    const std::int64_t written = last_write_ns_.load(std::memory_order_relaxed);
    const std::int64_t latest = std::max(nanoseconds(status.st_mtim), written);
    return {static_cast<time_t>(latest / kNanosecondsPerSecond),
            static_cast<long>(latest % kNanosecondsPerSecond)};
  }

 private:
  // Whether the descriptor takes `piece` as it lies.
  [[nodiscard]] bool is_direct(Bytes piece) const noexcept {
    return bounce_ == nullptr ||
           reinterpret_cast<std::uintptr_t>(piece.data()) % kDirectAlignment == 0;
  }

  // In one piece where no copy is needed, else in pieces that fit a bounce buffer.
  template <typename Span, typename Transfer>
  Status in_pieces(std::uint64_t offset_bytes, Span bytes, Transfer transfer) noexcept {
    const std::size_t limit = is_direct(bytes) ? bytes.size() : kBounceBytes;
    auto position = static_cast<off_t>(data_offset_bytes_ + offset_bytes);
    while (!bytes.empty()) {
      const Span piece = bytes.first(std::min(limit, bytes.size()));
      CRYPTIMG_RETURN_IF_ERROR(transfer(position, piece));
      position += static_cast<off_t>(piece.size());
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }

  Status read_bounced(off_t position, MutableBytes target) noexcept {
    const MutableBytes buffer = bounce_->acquire();
    Status status = read_all(position, buffer.first(target.size()));
    if (status) {
      std::memcpy(target.data(), buffer.data(), target.size());
    }
    bounce_->release(buffer);
    return status;
  }

  Status write_bounced(off_t position, Bytes source) noexcept {
    const MutableBytes buffer = bounce_->acquire();
    std::memcpy(buffer.data(), source.data(), source.size());
    Status status = write_all(position, buffer.first(source.size()));
    bounce_->release(buffer);
    return status;
  }

  Status read_all(off_t position, MutableBytes target) noexcept {
    while (!target.empty()) {
      const ssize_t got = ::pread(file_.get(), target.data(), target.size(), position);
      if (got < 0) {
        if (errno == EINTR) {
          continue;
        }
        return fail_io(errno);
      }
      if (got == 0) {
        return fail_io(EIO);
      }
      position += got;
      target = target.subspan(static_cast<std::size_t>(got));
    }
    return {};
  }

  Status write_all(off_t position, Bytes source) noexcept {
    while (!source.empty()) {
      const ssize_t put = ::pwrite(file_.get(), source.data(), source.size(), position);
      if (put < 0) {
        if (errno == EINTR) {
          continue;
        }
        return fail_io(errno);
      }
      if (put == 0) {
        return fail_io(EIO);
      }
      position += put;
      source = source.subspan(static_cast<std::size_t>(put));
    }
    return {};
  }

  // How much of the segment the device still has. One system call, about 0.1 us (1 us where the
  // host shadows page tables).
  Result<std::uint64_t> bytes_there() const noexcept {
    if (is_block_device_) {
      return size_bytes_;
    }
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) {
      return fail_io(errno);
    }
    const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
    return file_bytes <= data_offset_bytes_
               ? 0
               : std::min(file_bytes - data_offset_bytes_, size_bytes_);
  }

  // io where the range is not inside the segment, or a regular file no longer reaches that far: a
  // write there would make the file longer, and a view shows zeros. A file truncated between this
  // check and the write is still extended; nothing but a lease could exclude that.
  Status check_exists(std::uint64_t offset_bytes, std::uint64_t length_bytes) const noexcept {
    CRYPTIMG_ASSIGN_OR_RETURN(const std::uint64_t there, bytes_there());
    return inside(offset_bytes, length_bytes, there) ? Status() : fail_io(EIO);
  }

  void note_write() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    last_write_ns_.store(nanoseconds(now), std::memory_order_relaxed);
  }

  const UniqueFd file_;
  const std::vector<UniqueFd> kept_;
  const std::uint64_t data_offset_bytes_;
  const std::uint64_t size_bytes_;
  const std::unique_ptr<BufferPool> bounce_;  // direct I/O, or none
  bool is_block_device_ = false;
  std::unique_ptr<MappedFile> mapping_;         // or none
  std::atomic<std::int64_t> last_write_ns_{0};  // block devices only
  // What reaches() found, and in which tick of the clock, which is stored last.
  std::atomic<std::uint64_t> known_bytes_{0};
  std::atomic<std::int64_t> known_at_tick_{0};
};

}  // namespace

std::unique_ptr<BlockDevice> make_file_device(UniqueFd file, std::uint64_t data_offset_bytes,
                                              std::uint64_t size_bytes, BackingIo io,
                                              std::vector<UniqueFd> kept) {
  return std::make_unique<FileDevice>(std::move(file), data_offset_bytes, size_bytes, io,
                                      std::move(kept), nullptr);
}

Result<std::unique_ptr<BlockDevice>> make_direct_device(UniqueFd file,
                                                        std::uint64_t data_offset_bytes,
                                                        std::uint64_t size_bytes,
                                                        std::uint32_t sector_size_bytes,
                                                        std::vector<UniqueFd> kept) {
  const int flags = ::fcntl(file.get(), F_GETFL);
  if (flags < 0 || ::fcntl(file.get(), F_SETFL, flags | O_DIRECT) != 0) {
    return fail(Errc::unsupported,
                "the file system of the container offers no direct I/O, use --backing-io auto",
                errno);
  }
  CRYPTIMG_ASSIGN_OR_RETURN(auto bounce, BufferPool::create(kBounceBuffers, kBounceBytes));
  auto device = std::make_unique<FileDevice>(std::move(file), data_offset_bytes, size_bytes,
                                             BackingIo::direct, std::move(kept), std::move(bounce));
  std::vector<std::byte> sector(sector_size_bytes);
  for (const std::uint64_t offset_bytes : {std::uint64_t{0}, size_bytes - sector_size_bytes}) {
    if (const Status status = device->read(offset_bytes, sector); !status) {
      if (status.error().os_errno == EINVAL) {
        return fail(Errc::unsupported,
                    "the disk of the container takes no direct I/O in sectors of " +
                        std::to_string(sector_size_bytes) + " bytes, use --backing-io auto");
      }
      return tl::unexpected(status.error());
    }
  }
  return device;
}

}  // namespace cryptimg
