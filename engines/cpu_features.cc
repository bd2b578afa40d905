// SPDX-License-Identifier: GPL-3.0-or-later
//
// CPUID leaves and XCR0 bits as in Intel's Software Developer's Manual, volume 1, 15.2 and 13.3;
// AMD's APM agrees.
#include "engines/cpu_features.h"

#include <array>
#include <cstdlib>
#include <string_view>

#if defined(CRYPTIMG_HAVE_VAES)
#include <cpuid.h>
#endif

namespace cryptimg {
namespace {

#if defined(CRYPTIMG_HAVE_VAES)

constexpr bool all_set(std::uint64_t value, std::uint64_t bits) {
  return (value & bits) == bits;
}

// Which register states the system saves on a context switch.
std::uint64_t enabled_states() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

VaesLevel detect_level() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kAesNi = 1U << 25;
  constexpr unsigned kOsxsave = 1U << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || !all_set(ecx, kAesNi | kOsxsave)) {
    return VaesLevel::none;
  }
  constexpr unsigned kVaes = 1U << 9;
  constexpr unsigned kVpclmulqdq = 1U << 10;
  constexpr unsigned kAvx2 = 1U << 5;
  constexpr unsigned kAvx512FDqBwVl = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;
  constexpr std::uint64_t kXmmYmm = 0x6;
  constexpr std::uint64_t kOpmaskZmm = 0xe0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || !all_set(ecx, kVaes | kVpclmulqdq) ||
      !all_set(ebx, kAvx2) || !all_set(enabled_states(), kXmmYmm)) {
    return VaesLevel::none;
  }
  return all_set(ebx, kAvx512FDqBwVl) && all_set(enabled_states(), kOpmaskZmm) ? VaesLevel::avx512
                                                                               : VaesLevel::avx2;
}

#else

VaesLevel detect_level() {
  return VaesLevel::none;
}

#endif

}  // namespace

VaesLevel vaes_level() {
  static const VaesLevel kDetected = detect_level();
  const char* forced = std::getenv("CRYPTIMG_CPU");
  const std::string_view limit = forced == nullptr ? "" : forced;
  if (limit == "none") {
    return VaesLevel::none;
  }
  return limit == "avx2" && kDetected == VaesLevel::avx512 ? VaesLevel::avx2 : kDetected;
}

std::atomic<std::uint64_t>& vaes_transforms(VaesLevel level) {
  static std::array<std::atomic<std::uint64_t>, 3> transforms{};
  return transforms[static_cast<std::size_t>(level)];
}

}  // namespace cryptimg
