// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/image_file.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryptimg::model {

std::string failure_of(const std::string& what) {
  return what + ": " + std::strerror(errno);
}

ImageFile::~ImageFile() {
  close();
}

std::optional<std::string> ImageFile::open() {
  constexpr std::array<int, 4> kFlags = {0, O_DIRECT, O_SYNC, O_DSYNC};
  for (std::size_t index = 0; index < fds_.size(); ++index) {
    fds_[index].reset(::open(path_.c_str(), O_RDWR | O_CLOEXEC | kFlags[index]));
    if (!fds_[index].valid()) {
      return failure_of("open " + path_);
    }
  }
  struct stat attributes = {};
  if (::fstat(fds_[0].get(), &attributes) != 0) {
    return failure_of("fstat");
  }
  const auto size = static_cast<std::uint64_t>(attributes.st_size);
  void* const map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fds_[0].get(), 0);
  if (map == MAP_FAILED) {
    return failure_of("mmap");
  }
  map_ = static_cast<std::byte*>(map);
  map_bytes_ = size;
  return std::nullopt;
}

std::optional<std::string> ImageFile::close() {
  std::optional<std::string> problem;
  if (map_ != nullptr && ::munmap(map_, map_bytes_) != 0) {
    problem = failure_of("munmap");
  }
  map_ = nullptr;
  for (UniqueFd& fd : fds_) {
    if (fd.valid() && ::close(fd.release()) != 0) {
      problem = failure_of("close");
    }
  }
  return problem;
}

}  // namespace cryptimg::model
