// SPDX-License-Identifier: GPL-3.0-or-later
//
// Random: numbers that follow from a seed alone, the same on every machine (the standard
// library's distributions are not). And what a write's content is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cryptimg::model {

// A step of splitmix64: every bit of the result depends on every bit of the input.
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// One thread's.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed)) {}

  std::uint64_t next() { return mix(state_++); }
  // At least 0, less than `limit`; 0 where that is 0.
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : next() % limit; }
  // At least `low`, at most `high`. REQUIRES: low <= high.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  bool percent(unsigned chance) { return below(100) < chance; }

 private:
  std::uint64_t state_;
};

// Fills `target` with bytes that follow from `content`.
inline void fill(std::span<std::byte> target, std::uint64_t content) {
  std::uint64_t state = mix(content);
  for (std::size_t done = 0; done < target.size(); done += sizeof state) {
    state = mix(state);
    const std::size_t left = target.size() - done;
    std::memcpy(target.data() + done, &state, left < sizeof state ? left : sizeof state);
  }
}

}  // namespace cryptimg::model
