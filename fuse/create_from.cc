// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/create_from.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <semaphore>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/buffer_pool.h"
#include "core/encrypted_image.h"
#include "engines/engines.h"
#include "fuse/sizes.h"

namespace cryptimg {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// What the signal handler removes; empty where there is nothing to remove.
std::array<char, PATH_MAX> half_made_path;

void remove_and_die(int signal_number) {
  if (half_made_path[0] != '\0') {
    ::unlink(half_made_path.data());
  }
  ::raise(signal_number);  // SA_RESETHAND: the default action follows when this handler returns
}

// A file under a temporary name, removed unless publish() gave it its own, also by a signal.
class TemporaryFile {
 public:
  static Result<TemporaryFile> beside(const std::string& target) {
    std::array<unsigned char, 8> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
      return fail_errno(errno, "cannot get random bytes");
    }
    std::string name = ".cryptimg-";
    for (const unsigned char byte : random) {
      constexpr char kHex[] = "0123456789abcdef";
      name.append({kHex[byte >> 4], kHex[byte & 0xFU]});
    }
    const std::filesystem::path parent = std::filesystem::path(target).parent_path();
    std::string path = (parent.empty() ? std::filesystem::path(".") : parent) / name;
    if (path.size() >= half_made_path.size()) {
      return fail(Errc::invalid_argument, "the path of the container is too long");
    }
    return TemporaryFile(std::move(path));
  }

  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) {
      ::unlink(path_.c_str());
      half_made_path[0] = '\0';
    }
  }

  [[nodiscard]] const std::string& path() const { return path_; }

  // Gives the file its name, and makes that durable.
  Status publish(const std::string& target, bool replace) {
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(),
                    replace ? 0 : RENAME_NOREPLACE) != 0) {
      // Not every file system knows RENAME_NOREPLACE; a link never replaces either.
      if (errno != EINVAL || replace || ::link(path_.c_str(), target.c_str()) != 0) {
        return errno == EEXIST ? fail(Errc::exists, target + " exists; --force overwrites it")
                               : fail_errno(errno, "cannot create " + target);
      }
      ::unlink(path_.c_str());
    }
    half_made_path[0] = '\0';
    const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
    path_.clear();
    const UniqueFd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid() || ::fsync(directory.get()) != 0) {
      return fail_errno(errno, "cannot sync the directory of " + target);
    }
    return {};
  }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {
    std::copy_n(path_.c_str(), path_.size() + 1, half_made_path.begin());
    struct sigaction action {};
    action.sa_handler = remove_and_die;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigemptyset(&action.sa_mask);
    for (const int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      struct sigaction previous {};
      ::sigaction(signal_number, nullptr, &previous);
      if (previous.sa_handler != SIG_IGN) {
        ::sigaction(signal_number, &action, nullptr);
      }
    }
  }

  std::string path_;
};

// One plaintext buffer, wiped whatever happens.
class PlainBuffer {
 public:
  static Result<PlainBuffer> create() {
    CRYPTIMG_ASSIGN_OR_RETURN(auto pool, BufferPool::create(1, kPieceBytes));
    return PlainBuffer(std::move(pool));
  }
  PlainBuffer(PlainBuffer&& other) noexcept
      : pool_(std::move(other.pool_)), bytes_(std::exchange(other.bytes_, {})) {}
  PlainBuffer& operator=(PlainBuffer&&) = delete;
  ~PlainBuffer() {
    if (pool_) {
      wipe(bytes_);
      pool_->release_clean(bytes_);
    }
  }
  [[nodiscard]] MutableBytes first(std::size_t bytes) { return bytes_.first(bytes); }

 private:
  explicit PlainBuffer(std::unique_ptr<BufferPool> pool)
      : pool_(std::move(pool)), bytes_(pool_->acquire()) {}

  std::unique_ptr<BufferPool> pool_;
  MutableBytes bytes_;
};

Status read_exactly(const PlainSource& source, std::uint64_t offset_bytes, MutableBytes target) {
  std::size_t done = 0;
  while (done < target.size()) {
    const ssize_t got = ::pread(source.file.get(), target.data() + done, target.size() - done,
                                static_cast<off_t>(offset_bytes + done));
    if (got < 0 && errno != EINTR) {
      return fail_errno(errno, "cannot read " + source.path);
    }
    if (got == 0) {
      return fail(Errc::io, source.path + " became shorter while it was read");
    }
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    }
  }
  return {};
}

// One for all requests, and longer-lived than the image: release() may still be under way in a
// worker when the one that waits goes on.
struct Completion {
  std::binary_semaphore done{0};
  Status status;
};

Status write_and_wait(EncryptedImage& image, Completion& completion, std::uint64_t offset_bytes,
                      MutableBytes buffer) {
  IoRequest request;
  request.kind = IoRequest::Kind::write;
  request.offset_bytes = offset_bytes;
  request.length_bytes = buffer.size();
  request.buffer = buffer;
  request.context = &completion;
  request.completion = [](IoRequest& finished, Status status) noexcept {
    auto* const waiting = static_cast<Completion*>(finished.context);
    waiting->status = std::move(status);
    waiting->done.release();
  };
  image.submit(request);
  completion.done.acquire();
  return std::move(completion.status);
}

Status copy_into(EncryptedImage& image, Completion& completion, const PlainSource& source) {
  CRYPTIMG_ASSIGN_OR_RETURN(PlainBuffer plain, PlainBuffer::create());
  for (std::uint64_t offset = 0; offset < source.size_bytes; offset += kPieceBytes) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, source.size_bytes - offset));
    const std::uint64_t whole = round_up(wanted, image.sector_size_bytes()).value_or(wanted);
    const MutableBytes piece = plain.first(static_cast<std::size_t>(whole));
    CRYPTIMG_RETURN_IF_ERROR(read_exactly(source, offset, piece.first(wanted)));
    std::fill(piece.begin() + static_cast<std::ptrdiff_t>(wanted), piece.end(), std::byte{0});
    CRYPTIMG_RETURN_IF_ERROR(write_and_wait(image, completion, offset, piece));
  }
  return image.flush();
}

Status fill(const std::string& path, const PlainSource& source, const Secret& passphrase) {
  OpenOptions open_options;
  open_options.container = path;
  CRYPTIMG_ASSIGN_OR_RETURN(Container container, Container::open(open_options));
  const ContainerInfo& info = container.info();
  if (info.image_size_bytes < source.size_bytes) {
    return fail(Errc::invalid_argument, source.path + " has " + size_text(source.size_bytes) +
                                            ", more than the image's " +
                                            size_text(info.image_size_bytes));
  }
  const CipherSpec spec = container.spec();
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, container.unlock(passphrase, std::nullopt));
  CRYPTIMG_ASSIGN_OR_RETURN(const auto engine, make_engine("auto", spec));
  Completion completion;
  ImageOptions options;
  options.size_bytes = info.image_size_bytes;
  options.workers = std::max(1U, std::thread::hardware_concurrency()) - 1;
  CRYPTIMG_ASSIGN_OR_RETURN(std::unique_ptr<BlockDevice> device, container.take_device());
  CRYPTIMG_ASSIGN_OR_RETURN(
      const auto image, EncryptedImage::create(std::move(device), *engine, spec, key, options, 1));
  Status status = copy_into(*image, completion, source);
  if (!status && status.error().message.empty()) {
    status.error().message =
        "cannot write the content of " + source.path + " into the container" +
        (status.error().os_errno != 0 ? std::string(": ") + std::strerror(status.error().os_errno)
                                      : std::string());
  }
  return status;
}

}  // namespace

Result<PlainSource> open_source(const std::string& path) {
  PlainSource source;
  source.path = path;
  source.file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  if (!source.file.valid() || ::fstat(source.file.get(), &status) != 0) {
    return fail_errno(errno, "cannot open " + path);
  }
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    return fail(Errc::invalid_argument,
                "--from must name a regular file or a block device, which " + path + " is not");
  }
  const off_t size = ::lseek(source.file.get(), 0, SEEK_END);
  if (size < 0) {
    return fail_errno(errno, "cannot tell the size of " + path);
  }
  if (size == 0) {
    return fail(Errc::invalid_argument, "there is nothing in " + path + " to encrypt");
  }
  source.size_bytes = static_cast<std::uint64_t>(size);
  return source;
}

Status create_container_from(const CreateOptions& options, const PlainSource& source,
                             const Secret& passphrase, std::vector<std::string>& warnings) {
  struct stat existing {};
  if (::stat(options.container.c_str(), &existing) == 0 && S_ISBLK(existing.st_mode)) {
    CRYPTIMG_RETURN_IF_ERROR(create_container(options, passphrase, warnings));
    Status status = fill(options.container, source, passphrase);
    if (!status) {
      status.error().message += "; " + options.container + " now holds a container without it";
    }
    return status;
  }

  // A link's own target is what gets replaced.
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(options.container, error);
  const std::string target = error ? options.container : resolved.string();
  if (!error && options.force) {
    OpenOptions open_options;
    open_options.container = target;
    const auto holder = Container::open(open_options);
    if (!holder && holder.error().code == Errc::busy) {
      return tl::unexpected(holder.error());
    }
  }
  CRYPTIMG_ASSIGN_OR_RETURN(TemporaryFile temporary, TemporaryFile::beside(target));
  CreateOptions under_way = options;
  under_way.container = temporary.path();
  under_way.force = false;
  CRYPTIMG_RETURN_IF_ERROR(create_container(under_way, passphrase, warnings));
  CRYPTIMG_RETURN_IF_ERROR(fill(temporary.path(), source, passphrase));
  return temporary.publish(target, options.force);
}

}  // namespace cryptimg
