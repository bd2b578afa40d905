// SPDX-License-Identifier: GPL-3.0-or-later
//
// Key files and passphrases: what is read is what is there, byte for byte. Input: the content.
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "core/unique_fd.h"
#include "fuse/passphrase.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string text_of(const cryptimg::Secret& secret) {
  return {secret.chars(), secret.size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg::fuzz;
  static Reach reach{"line", "whole input", "nothing"};
  const std::string content(reinterpret_cast<const char*>(data), size);
  const cryptimg::UniqueFd file(::memfd_create("key", MFD_CLOEXEC));
  FUZZ_CHECK(file.valid());
  FUZZ_CHECK(::write(file.get(), data, size) == static_cast<ssize_t>(size));

  std::string warning;
  const auto whole =
      cryptimg::read_key_file("/proc/self/fd/" + std::to_string(file.get()), warning);
  FUZZ_CHECK(whole && text_of(*whole) == content);

  FUZZ_CHECK(::lseek(file.get(), 0, SEEK_SET) == 0);
  FUZZ_CHECK(::dup2(file.get(), STDIN_FILENO) == STDIN_FILENO);
  const auto line = cryptimg::read_passphrase("", false);
  const std::size_t newline = content.find('\n');
  FUZZ_CHECK(line.has_value() == !content.empty());
  if (line) {
    FUZZ_CHECK(text_of(*line) == content.substr(0, newline));
    // The rest is for whoever reads next.
    const std::size_t used = newline == std::string::npos ? content.size() : newline + 1;
    FUZZ_CHECK(::lseek(STDIN_FILENO, 0, SEEK_CUR) == static_cast<off_t>(used));
  }
  reach.at(!line ? "nothing" : newline == std::string::npos ? "whole input" : "line");

  FUZZ_CHECK(::lseek(STDIN_FILENO, 0, SEEK_SET) == 0);
  const auto piped = cryptimg::read_key_file("-", warning);
  FUZZ_CHECK(piped.has_value() == !content.empty());
  FUZZ_CHECK(!piped || text_of(*piped) == content);
  return 0;
}
