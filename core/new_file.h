// SPDX-License-Identifier: GPL-3.0-or-later
//
// NewFile: a file that appears under its name complete or not at all. It is written without a name
// (O_TMPFILE), or where the file system cannot do that under a temporary one in the same directory,
// and gets its name when committed. Destroyed before that, nothing is left. One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "core/unique_fd.h"

namespace cryptimg {

class NewFile {
 public:
  // An empty file that will be called `path`; mode 0600 whatever the umask, where the file system
  // has modes.
  static Result<NewFile> create(const std::string& path);

  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Whether it has mode 0600.
  [[nodiscard]] bool is_private() const;
  // What an unprivileged user can still write to its file system.
  [[nodiscard]] Result<std::uint64_t> free_bytes() const;

  // Syncs the file, gives it its name and syncs the directory. With `replace` whatever file has
  // that name is replaced; otherwise exists, and nothing is left. Call once.
  Status commit(bool replace);
  // Takes a committed file away again (another half of the work failed).
  void remove_committed();

 private:
  NewFile() = default;
  Status give_name(bool replace);
  Status link_temporary();
  [[nodiscard]] Error name_failure(int os_errno) const;

  UniqueFd directory_;
  UniqueFd fd_;
  std::string path_;            // for messages
  std::string name_;            // in directory_
  std::string temporary_name_;  // in directory_; empty while the file has no temporary name
};

}  // namespace cryptimg
