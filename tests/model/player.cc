// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/player.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/model/random.h"

namespace cryptimg::model {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

off_t as_offset(std::uint64_t value) {
  return static_cast<off_t>(value);
}

// "WHAT gives GOT instead of WANTED", where a negative number is an errno's.
std::optional<std::string> compare(const char* what, std::int64_t got, std::int64_t wanted) {
  if (got == wanted) {
    return std::nullopt;
  }
  const auto show = [](std::int64_t value) {
    return value < 0 ? std::string(std::strerror(static_cast<int>(-value))) : std::to_string(value);
  };
  return std::string(what) + " gives " + show(got) + " instead of " + show(wanted);
}

// What a system call returned, or minus its errno.
std::int64_t answer(std::int64_t returned) {
  return returned < 0 ? -std::int64_t{errno} : returned;
}

}  // namespace

std::optional<Failure> Player::play(const Trace& trace) {
  bool is_spoilt = false;
  for (std::size_t index = 0; index < trace.size(); ++index) {
    const Operation& operation = trace[index];
    if (auto problem = perform(operation)) {
      return Failure{index, *std::move(problem)};
    }
    if (spoil_from_ && !is_spoilt && operation.number >= *spoil_from_ &&
        changes_bytes(operation.kind) &&
        model_.inside_bytes(operation.offset, operation.length) == operation.length) {
      model_.spoil(operation.offset + operation.length / 2);
      is_spoilt = true;
    }
  }
  return std::nullopt;
}

Player::Problem Player::perform(const Operation& operation) {
  switch (operation.kind) {
    case Kind::read:
      return read(operation);
    case Kind::write:
      return write(operation);
    case Kind::map_read:
      return map_read(operation);
    case Kind::map_write:
      return map_write(operation);
    case Kind::sync_map:
      return sync_map(operation);
    case Kind::flush:
      return compare("fsync", answer(::fsync(file_.fd(operation.access))), 0);
    case Kind::flush_data:
      return compare("fdatasync", answer(::fdatasync(file_.fd(operation.access))), 0);
    case Kind::zero:
    case Kind::zero_keep:
      return zero(operation);
    case Kind::punch:
      return compare(
          "PUNCH_HOLE",
          answer(::fallocate(file_.fd(operation.access), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                             as_offset(operation.offset), as_offset(operation.length))),
          -EOPNOTSUPP);
    case Kind::allocate:
      return compare("fallocate",
                     answer(::fallocate(file_.fd(operation.access), 0, as_offset(operation.offset),
                                        as_offset(operation.length))),
                     0);
    case Kind::shrink:
    case Kind::grow:
      return resize(operation);
    case Kind::seek_data:
    case Kind::seek_hole:
    case Kind::seek_end:
      return seek(operation);
    case Kind::forget:
      return compare("posix_fadvise",
                     ::posix_fadvise(file_.fd(operation.access), as_offset(operation.offset),
                                     as_offset(operation.length), POSIX_FADV_DONTNEED),
                     0);
    case Kind::reopen:
    case Kind::truncate:
      return reopen(operation.kind == Kind::truncate);
    case Kind::drop_caches:
      return drop_caches();
  }
  return "no such operation";
}

// At the offset's place in a page: aligned exactly where the operation is.
std::span<std::byte> Player::buffer(const Operation& operation) {
  const std::uint64_t needs = operation.length + 2 * kPageBytes;
  if (memory_.size() < needs) {
    memory_.resize(needs);
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  const std::uint64_t to_page = (kPageBytes - address % kPageBytes) % kPageBytes;
  return std::span(memory_).subspan(to_page + operation.offset % kPageBytes, operation.length);
}

Player::Problem Player::read(const Operation& operation) {
  const std::span<std::byte> target = buffer(operation);
  const std::uint64_t wanted = model_.inside_bytes(operation.offset, operation.length);
  std::memset(target.data(), 0xEE, target.size());
  const std::int64_t got = answer(::pread(file_.fd(operation.access), target.data(), target.size(),
                                          as_offset(operation.offset)));
  if (auto problem = compare("read", got, static_cast<std::int64_t>(wanted))) {
    return problem;
  }
  return wanted == 0 ? std::nullopt : model_.difference(operation.offset, target.first(wanted));
}

Player::Problem Player::write(const Operation& operation) {
  const std::span<std::byte> source = buffer(operation);
  fill(source, operation.content);
  const std::uint64_t inside = model_.inside_bytes(operation.offset, operation.length);
  // A cached write that ends short, or fails, makes the kernel forget the page it ended in, with
  // what a mapping changed there. It matters only where the image ends inside a page.
  if (operation.access != Access::direct && inside < source.size()) {
    const std::uint64_t last_page = (model_.size_bytes() - 1) / kPageBytes * kPageBytes;
    if (::msync(file_.map().data() + last_page, model_.size_bytes() - last_page, MS_SYNC) != 0) {
      return failure_of("msync");
    }
  }
  const std::int64_t got = answer(::pwrite(file_.fd(operation.access), source.data(), source.size(),
                                           as_offset(operation.offset)));
  // The kernel does not let a direct write end short: what fits is written all the same.
  const bool is_direct_across = operation.access == Access::direct && inside < source.size();
  const auto wanted = inside == 0 || (is_direct_across && got < 0)
                          ? -std::int64_t{ENOSPC}
                          : static_cast<std::int64_t>(inside);
  if (auto problem = compare("write", got, wanted)) {
    return problem;
  }
  model_.write(operation.offset, source);
  return std::nullopt;
}

Player::Problem Player::map_read(const Operation& operation) {
  const std::span<std::byte> target = buffer(operation);
  std::memcpy(target.data(), file_.map().data() + operation.offset, target.size());
  return model_.difference(operation.offset, target);
}

Player::Problem Player::map_write(const Operation& operation) {
  const std::span<std::byte> source = buffer(operation);
  fill(source, operation.content);
  std::memcpy(file_.map().data() + operation.offset, source.data(), source.size());
  model_.write(operation.offset, source);
  return std::nullopt;
}

Player::Problem Player::sync_map(const Operation& operation) {
  const std::uint64_t begin = operation.offset / kPageBytes * kPageBytes;
  return compare("msync",
                 answer(::msync(file_.map().data() + begin,
                                operation.offset + operation.length - begin, MS_SYNC)),
                 0);
}

Player::Problem Player::zero(const Operation& operation) {
  const bool keeps_size = operation.kind == Kind::zero_keep;
  const bool is_inside =
      model_.inside_bytes(operation.offset, operation.length) == operation.length;
  const std::int64_t got = answer(::fallocate(
      file_.fd(operation.access), FALLOC_FL_ZERO_RANGE | (keeps_size ? FALLOC_FL_KEEP_SIZE : 0),
      as_offset(operation.offset), as_offset(operation.length)));
  if (auto problem = compare("ZERO_RANGE", got, is_inside ? 0 : -ENOSPC)) {
    return problem;
  }
  if (is_inside) {
    model_.zero(operation.offset, operation.length);
  }
  return std::nullopt;
}

Player::Problem Player::resize(const Operation& operation) {
  const std::int64_t got =
      answer(::ftruncate(file_.fd(operation.access), as_offset(operation.length)));
  if (auto problem = compare("ftruncate", got, operation.kind == Kind::grow ? -EFBIG : 0)) {
    return problem;
  }
  struct stat attributes = {};
  if (::fstat(file_.fd(operation.access), &attributes) != 0) {
    return failure_of("fstat");
  }
  return compare("the size", attributes.st_size, static_cast<std::int64_t>(model_.size_bytes()));
}

Player::Problem Player::seek(const Operation& operation) {
  const int fd = file_.fd(operation.access);
  const auto size = static_cast<std::int64_t>(model_.size_bytes());
  const std::int64_t offset = as_offset(operation.offset);
  if (operation.kind == Kind::seek_end) {
    return compare("SEEK_END", answer(::lseek(fd, 0, SEEK_END)), size);
  }
  const bool is_data = operation.kind == Kind::seek_data;
  if (auto problem = compare(is_data ? "SEEK_DATA" : "SEEK_HOLE",
                             answer(::lseek(fd, offset, is_data ? SEEK_DATA : SEEK_HOLE)),
                             is_data ? offset : size)) {
    return problem;
  }
  return compare("a seek at the end", answer(::lseek(fd, size, is_data ? SEEK_DATA : SEEK_HOLE)),
                 -ENXIO);
}

Player::Problem Player::reopen(bool truncate) {
  if (truncate) {
    const UniqueFd fd(::open(file_.path().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC));
    return fd.valid() ? std::nullopt : Problem(failure_of("open with O_TRUNC"));
  }
  if (auto problem = file_.close()) {
    return problem;
  }
  if (auto problem = file_.open()) {
    return problem;
  }
  return compare("the size", static_cast<std::int64_t>(file_.size_bytes()),
                 static_cast<std::int64_t>(model_.size_bytes()));
}

Player::Problem Player::drop_caches() {
  const UniqueFd fd(::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), "1", 1) != 1) {
    return failure_of("/proc/sys/vm/drop_caches");
  }
  return std::nullopt;
}

std::optional<std::string> reset_content(const std::string& path, Model& model) {
  constexpr std::size_t kPieceBytes = 1 << 20;
  model.reset();
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) {
    return failure_of("open " + path);
  }
  std::span<const std::byte> left = model.bytes();
  while (!left.empty()) {
    const std::uint64_t offset = model.size_bytes() - left.size();
    const ssize_t got = ::pwrite(fd.get(), left.data(), std::min(left.size(), kPieceBytes),
                                 static_cast<off_t>(offset));
    if (got <= 0) {
      return failure_of("write of the first content");
    }
    left = left.subspan(static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

}  // namespace cryptimg::model
