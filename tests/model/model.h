// SPDX-License-Identifier: GPL-3.0-or-later
//
// Model: what an image should hold and answer. A plain run of bytes of fixed size, with the rules
// of the image's end. It knows nothing of sectors, ciphers, caches or FUSE: that is the point.
//
// Threads may use it at the same time on disjoint ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cryptimg::model {

class Model {
 public:
  // Filled with bytes that follow from their place.
  explicit Model(std::uint64_t size_bytes);

  // Back to what it was at first.
  void reset();

  [[nodiscard]] std::uint64_t size_bytes() const { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // How much of a range lies inside: what a read or write of it should move.
  [[nodiscard]] std::uint64_t inside_bytes(std::uint64_t offset, std::uint64_t length) const;

  // What lies past the end is dropped.
  void write(std::uint64_t offset, std::span<const std::byte> source);
  void zero(std::uint64_t offset, std::uint64_t length);
  // Makes the model wrong in one byte: to see whether that is noticed.
  void spoil(std::uint64_t offset);

  // None if `got` is what lies at `offset`; else a sentence with the first and last difference.
  // REQUIRES: the range lies inside.
  [[nodiscard]] std::optional<std::string> difference(std::uint64_t offset,
                                                      std::span<const std::byte> got) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace cryptimg::model
