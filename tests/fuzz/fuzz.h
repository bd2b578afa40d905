// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the fuzz targets share. A target is one LLVMFuzzerTestOneInput(), built with libFuzzer
// (CRYPTIMG_FUZZ) or with replay_main.cc. It ends the process where a law does not hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

#define FUZZ_CHECK(law)                                                      \
  do {                                                                       \
    if (!(law)) {                                                            \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #law); \
      std::abort();                                                          \
    }                                                                        \
  } while (false)

namespace cryptimg::fuzz {

// Places that a run must have come to, or it has proved nothing: with CRYPTIMG_FUZZ_REACH set, the
// process ends with 1 where one of them was missed. One static object a target.
class Reach {
 public:
  Reach(std::initializer_list<const char*> places) : missing_(places.begin(), places.end()) {}
  ~Reach() {
    if (std::getenv("CRYPTIMG_FUZZ_REACH") == nullptr || missing_.empty()) {
      return;
    }
    for (const std::string& place : missing_) {
      std::fprintf(stderr, "never came to: %s\n", place.c_str());
    }
    ::_exit(1);
  }
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

  void at(std::string_view place) { std::erase(missing_, place); }

 private:
  std::vector<std::string> missing_;
};

// Takes an input apart, from its start. What is not there reads as zero.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}

  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value = value << 8 | (rest_.empty() ? 0U : static_cast<unsigned char>(rest_.front()));
      rest_.remove_prefix(rest_.empty() ? 0 : 1);
    }
    return value;
  }
  std::string_view take(std::size_t bytes) {
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Fit for one line of a terminal. Not printable()'s way to find out.
inline bool is_one_line(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto value = static_cast<unsigned char>(c);
    return value >= 0x20 && value != 0x7F;
  });
}

}  // namespace cryptimg::fuzz
