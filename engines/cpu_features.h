// SPDX-License-Identifier: GPL-3.0-or-later
//
// Which VAES routines this machine can run. Two questions, two answers: what was compiled in
// (CRYPTIMG_HAVE_VAES) and what the CPU and the operating system offer.
#pragma once

#include <atomic>
#include <cstdint>

namespace cryptimg {

enum class VaesLevel : std::uint8_t { none, avx2, avx512 };

// The best level that was compiled in and that CPUID offers, XGETBV says the system saves the
// registers of, and the environment variable CRYPTIMG_CPU (none, avx2 or avx512: force a level
// down, for tests) allows. Any thread; cheap enough to ask anew.
VaesLevel vaes_level();

// How many transforms each level has done in this process: the engine adds, a test can see which
// routines ran.
std::atomic<std::uint64_t>& vaes_transforms(VaesLevel level);

}  // namespace cryptimg
