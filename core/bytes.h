// SPDX-License-Identifier: GPL-3.0-or-later
//
// Byte spans, byte order and arithmetic that cannot overflow silently. Pure functions, any thread.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>

namespace cryptimg {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little,
              "the on-disk IVs are little endian; byte swaps for big endian machines are missing");

// Stores `value` little endian at `target` (8 bytes, any alignment).
inline void store_le64(std::byte* target, std::uint64_t value) {
  std::memcpy(target, &value, sizeof value);
}

// a + b, or nothing where the sum does not fit.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_add(T a, T b) {
  if (b > std::numeric_limits<T>::max() - a) {
    return std::nullopt;
  }
  return static_cast<T>(a + b);
}

// a * b, or nothing where the product does not fit.
template <std::unsigned_integral T>
constexpr std::optional<T> checked_mul(T a, T b) {
  if (a != 0 && b > std::numeric_limits<T>::max() / a) {
    return std::nullopt;
  }
  return static_cast<T>(a * b);
}

// The largest multiple of `unit` that is at most `value`. REQUIRES: unit > 0.
constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t unit) {
  return value - value % unit;
}

// The smallest multiple of `unit` that is at least `value`, or nothing where it does not fit.
constexpr std::optional<std::uint64_t> round_up(std::uint64_t value, std::uint64_t unit) {
  const std::uint64_t rest = value % unit;
  return rest == 0 ? std::optional(value) : checked_add(value, unit - rest);
}

}  // namespace cryptimg
