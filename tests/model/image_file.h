// SPDX-License-Identifier: GPL-3.0-or-later
//
// ImageFile: a mounted image as a program sees it: a descriptor for each kind of access, and a
// shared mapping. Used by one thread; several may have one each on the same image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/unique_fd.h"
#include "tests/model/operations.h"

namespace cryptimg::model {

class ImageFile {
 public:
  explicit ImageFile(std::string path) : path_(std::move(path)) {}
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;
  ~ImageFile();

  // Each gives a sentence if it fails. After open(), the functions below may be used.
  std::optional<std::string> open();
  std::optional<std::string> close();

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t size_bytes() const { return map_bytes_; }
  [[nodiscard]] int fd(Access access) const { return fds_[static_cast<std::size_t>(access)].get(); }
  // The whole image.
  [[nodiscard]] std::span<std::byte> map() const { return {map_, map_bytes_}; }

 private:
  std::string path_;
  std::array<UniqueFd, 4> fds_;  // by Access
  std::byte* map_ = nullptr;
  std::uint64_t map_bytes_ = 0;
};

// "WHAT: the errno's text"
std::string failure_of(const std::string& what);

}  // namespace cryptimg::model
