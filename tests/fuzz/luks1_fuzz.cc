// SPDX-License-Identifier: GPL-3.0-or-later
//
// Opening a LUKS1 container, or what else begins like an input: through libcryptsetup up to our
// own checks. Input: the file's start; the size of the file in its last byte, in 64 KiB.
#include <string>

#include "tests/fuzz/header_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg::fuzz;
  static Reach reach{"no header", "refused", "served", "derived"};
  static HeaderFile file;
  Input input(data, size);
  const std::string start(input.take(size == 0 ? 0 : size - 1));
  file.write(start, input.number(1) << 16);
  file.open_and_check(reach);
  return 0;
}
