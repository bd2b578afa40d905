// SPDX-License-Identifier: GPL-3.0-or-later
//
// HeaderFile: a container in memory whose start an attacker wrote, and the laws of what is made of
// it: what is served is consistent, what is refused is refused in one line, and no byte changes.
#pragma once

#include <cstdint>
#include <string>

#include "core/container.h"
#include "core/unique_fd.h"
#include "tests/fuzz/fuzz.h"

namespace cryptimg::fuzz {

class HeaderFile {
 public:
  HeaderFile();

  // The file is `start`, then zeros up to `size_bytes`.
  void write(const std::string& start, std::uint64_t size_bytes);
  // Opens it in every way and checks the laws; tries one wrong passphrase where that is cheap.
  // Comes to the places "no header", "refused", "served" and "derived".
  void open_and_check(Reach& reach);

 private:
  void check_info(const ContainerInfo& info) const;
  void check_unlock(Container& container, Reach& reach) const;
  [[nodiscard]] bool is_unchanged() const;

  UniqueFd fd_;
  std::string path_;
  std::string start_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace cryptimg::fuzz
