// SPDX-License-Identifier: GPL-3.0-or-later
//
// The requests of ImageFs that touch bytes: taken, answered, and served one by one.
#include "fuse/image_io.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <string>

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <sys/uio.h>

#include "fuse/daemon_log.h"
#include "fuse/image_fs.h"
#include "fuse/session.h"

namespace cryptimg {
namespace {

void raise_to(std::atomic<std::uint64_t>& target, std::uint64_t value) {
  std::uint64_t seen = target.load();
  while (seen < value && !target.compare_exchange_weak(seen, value)) {
  }
}

const char* name_of(FailureLog::Kind kind) {
  switch (kind) {
    case FailureLog::Kind::read:
      return "read";
    case FailureLog::Kind::write:
      return "write";
    case FailureLog::Kind::flush:
      return "flush";
    case FailureLog::Kind::zero:
      return "zeroing";
    case FailureLog::Kind::allocate:
      return "allocation";
  }
  return "request";
}

std::int64_t monotonic_ns() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

// A read or write under way by itself. Lies in its own request buffer, so nothing is allocated.
struct ImageFs::Io {
  IoRequest request;
  ImageFs* fs = nullptr;
  PendingRead read;
  PendingWrite write;   // one of the two, by request.kind
  MutableBytes buffer;  // the whole request buffer, this included
};
static_assert(kPayloadOffset + kMaxIoBytes + 4096 <= kRecordOffset);

int to_errno(const Error& error) {
  switch (error.code) {
    case Errc::no_space:
      return error.os_errno == EDQUOT ? EDQUOT : ENOSPC;
    case Errc::out_of_range:
    case Errc::invalid_argument:
      return EINVAL;
    case Errc::unsupported:
      return EOPNOTSUPP;
    case Errc::read_only:
      return EROFS;
    case Errc::out_of_memory:
      return ENOMEM;
    default:
      return EIO;
  }
}

void FailureLog::note(Kind kind, const Error& error) noexcept {
  constexpr std::int64_t kSilenceNs = 1'000'000'000;
  State& state = states_[static_cast<std::size_t>(kind)];
  const std::int64_t now = monotonic_ns();
  std::int64_t until = state.silent_until_ns.load();
  if (now < until || !state.silent_until_ns.compare_exchange_strong(until, now + kSilenceNs)) {
    state.unsaid.fetch_add(1);
    return;
  }
  const std::uint64_t unsaid = state.unsaid.exchange(0);
  try {
    std::string message = std::string(name_of(kind)) + " failed: ";
    message += error.message.empty()
                   ? std::strerror(error.os_errno != 0 ? error.os_errno : to_errno(error))
                   : error.message;
    if (unsaid != 0) {
      message += " (and " + std::to_string(unsaid) + " more since the last such message)";
    }
    log_error(message);
  } catch (const std::bad_alloc&) {
    state.unsaid.fetch_add(unsaid + 1);
  }
}

void ImageFs::start_read(const PendingRead& read) {
  const MutableBytes buffer = pool_.acquire();
  Io& io = *new (buffer.data() + kRecordOffset) Io;
  static_assert(sizeof(Io) <= kRequestBufferBytes - kRecordOffset);
  io.fs = this;
  io.read = read;
  io.buffer = buffer;
  io.request.kind = IoRequest::Kind::read;
  io.request.takes_pieces = true;
  submit(io, read.range);
}

void ImageFs::start_write(const PendingWrite& write, MutableBytes buffer) {
  Io& io = *new (buffer.data() + kRecordOffset) Io;
  io.fs = this;
  io.write = write;
  io.buffer = buffer;
  io.request.kind = IoRequest::Kind::write;
  io.request.durable = write.durable;
  submit(io, write.range);
}

// REQUIRES: the range lies inside the image and its covering extent fits around the payload.
void ImageFs::submit(Io& io, const ByteExtent& range) {
  const ByteExtent extent = image_.cover(range.offset_bytes, range.length_bytes);
  const std::uint64_t head = range.offset_bytes - extent.offset_bytes;
  io.request.offset_bytes = range.offset_bytes;
  io.request.length_bytes = range.length_bytes;
  io.request.buffer = io.buffer.subspan(kPayloadOffset - head, extent.length_bytes);
  io.request.completion = &ImageFs::complete;
  io.request.context = &io;
  image_.submit(io.request);
}

void ImageFs::complete(IoRequest& request, Status status) noexcept {
  Io& io = *static_cast<Io*>(request.context);
  ImageFs& fs = *io.fs;
  const MutableBytes buffer = io.buffer;
  // A write was enciphered where it lay.
  const bool is_clean = request.kind == IoRequest::Kind::write && status && io.write.is_whole;
  if (request.kind == IoRequest::Kind::read) {
    const auto& ahead = request.ahead;
    std::array<iovec, ReadAhead::kMaxPieces + 1> parts;
    const auto add = [&parts](std::size_t at, Bytes bytes) {
      parts[at] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    };
    for (std::size_t piece = 0; piece < ahead.count; ++piece) {
      add(piece, ahead.pieces[piece]);
    }
    add(ahead.count,
        buffer.subspan(kPayloadOffset + ahead.bytes, request.length_bytes - ahead.bytes));
    fs.answer_read(io.read, status, {parts.data(), ahead.count + 1});
  } else {
    fs.answer_write(io.write, status);
  }
  io.~Io();
  if (is_clean) {
    fs.pool_.release_clean(buffer);
  } else {
    fs.pool_.release(buffer);
  }
}

void ImageFs::answer_read(const PendingRead& read, const Status& status,
                          std::span<const iovec> plaintext) {
  const int own_fd = request_fd();
  answer_through(read.fd);
  if (!status) {
    failures_.note(FailureLog::Kind::read, status.error());
    ::fuse_reply_err(read.request, to_errno(status.error()));
  } else {
    ::fuse_reply_iov(read.request, plaintext.data(), static_cast<int>(plaintext.size()));
  }
  answer_through(own_fd);
}

void ImageFs::answer_write(const PendingWrite& write, const Status& status) {
  // A failed write counts too: part of it may be there, and its close should flush.
  raise_to(write.handle->last_write, image_.write_sequence());
  const int own_fd = request_fd();
  answer_through(write.fd);
  if (!status) {
    failures_.note(FailureLog::Kind::write, status.error());
    ::fuse_reply_err(write.request, to_errno(status.error()));
  } else if (write.ends_with_no_space) {
    ::fuse_reply_err(write.request, ENOSPC);
  } else {
    ::fuse_reply_write(write.request, write.range.length_bytes);
  }
  answer_through(own_fd);
}

void ImageFs::read(fuse_req* request, std::size_t size_bytes, off_t offset_bytes) {
  if (offset_bytes < 0 || size_bytes > kMaxIoBytes) {
    ::fuse_reply_err(request, EINVAL);
    return;
  }
  const auto offset = static_cast<std::uint64_t>(offset_bytes);
  if (size_bytes == 0 || offset >= image_.size_bytes()) {
    ::fuse_reply_buf(request, nullptr, 0);
    return;
  }
  const PendingRead read{
      request,
      request_fd(),
      {offset, std::min<std::uint64_t>(size_bytes, image_.size_bytes() - offset)}};
  if (!put_aside(read)) {
    start_read(read);
  }
}

void ImageFs::write(fuse_req* request, const char* payload, std::size_t size_bytes,
                    off_t offset_bytes, int flags, Handle& handle) {
  if (offset_bytes < 0 || size_bytes > kMaxIoBytes) {
    ::fuse_reply_err(request, EINVAL);
    return;
  }
  const auto offset = static_cast<std::uint64_t>(offset_bytes);
  if (size_bytes == 0) {
    ::fuse_reply_write(request, 0);
    return;
  }
  if (offset >= image_.size_bytes()) {
    ::fuse_reply_err(request, ENOSPC);
    return;
  }
  PendingWrite write;
  write.request = request;
  write.fd = request_fd();
  write.handle = &handle;
  write.range = {offset, std::min<std::uint64_t>(size_bytes, image_.size_bytes() - offset)};
  write.durable = (flags & (O_SYNC | O_DSYNC)) != 0;
  // The kernel turns a short answer to a direct write into EIO, which says that the disk is broken.
  write.is_whole = write.range.length_bytes == size_bytes;
  write.ends_with_no_space = write.range.length_bytes < size_bytes && (flags & O_DIRECT) != 0;
  if (put_aside(write, Bytes(reinterpret_cast<const std::byte*>(payload), size_bytes))) {
    return;
  }
  work_batch();  // it does not wait for a long write
  const MutableBytes buffer = take_request_buffer();
  std::byte* const expected = buffer.data() + kPayloadOffset;
  if (reinterpret_cast<const std::byte*>(payload) != expected) {
    // A kernel whose request header has another length than ours.
    std::memmove(expected, payload, size_bytes);
    write.is_whole = false;
  }
  start_write(write, buffer);
}

void ImageFs::answer_status(fuse_req* request, FailureLog::Kind kind, const Status& status) {
  if (!status) {
    failures_.note(kind, status.error());
  }
  ::fuse_reply_err(request, status ? 0 : to_errno(status.error()));
}

void ImageFs::flush(fuse_req* request, const Handle& handle) {
  const std::uint64_t last_write = handle.last_write.load();
  if (last_write == 0) {
    ::fuse_reply_err(request, 0);
    return;
  }
  const bool is_flushed = last_write <= image_.flushed_sequence();
  answer_status(request, FailureLog::Kind::flush,
                is_flushed ? image_.flush_state() : image_.flush_if_dirty());
}

void ImageFs::fsync(fuse_req* request) {
  answer_status(request, FailureLog::Kind::flush, image_.read_only() ? Status() : image_.flush());
}

void ImageFs::fallocate(fuse_req* request, int mode, off_t offset_bytes, off_t length_bytes,
                        Handle& handle) {
  const bool is_zero = (mode & ~FALLOC_FL_KEEP_SIZE) == FALLOC_FL_ZERO_RANGE;
  const bool is_allocate = (mode & ~FALLOC_FL_KEEP_SIZE) == 0;
  if (!is_zero && !is_allocate) {
    ::fuse_reply_err(request, EOPNOTSUPP);
    return;
  }
  if (image_.read_only()) {
    ::fuse_reply_err(request, EROFS);
    return;
  }
  if (offset_bytes < 0 || length_bytes <= 0) {
    ::fuse_reply_err(request, EINVAL);
    return;
  }
  const auto offset = static_cast<std::uint64_t>(offset_bytes);
  const auto length = static_cast<std::uint64_t>(length_bytes);
  if (!inside(offset, length, image_.size_bytes())) {
    ::fuse_reply_err(request, ENOSPC);
    return;
  }
  if (is_allocate) {
    answer_status(request, FailureLog::Kind::allocate, image_.allocate(offset, length));
    return;
  }
  const MutableBytes buffer = take_request_buffer();
  const Status status = image_.zero(offset, length, buffer);
  pool_.release_clean(buffer);
  raise_to(handle.last_write, image_.write_sequence());
  answer_status(request, FailureLog::Kind::zero, status);
}

}  // namespace cryptimg
