// SPDX-License-Identifier: GPL-3.0-or-later
//
// Player: does what a trace says to an image and to the model, and compares every answer: bytes,
// lengths, error numbers. One thread's; players in different parts of an image may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/model/image_file.h"
#include "tests/model/model.h"
#include "tests/model/operations.h"

namespace cryptimg::model {

struct Failure {
  std::size_t index = 0;  // in the trace
  std::string problem;
};

class Player {
 public:
  // The first operation that changes bytes and whose number is at least `spoil_from` is noted
  // wrongly in the model.
  Player(ImageFile& file, Model& model, std::optional<std::uint32_t> spoil_from = std::nullopt)
      : file_(file), model_(model), spoil_from_(spoil_from) {}

  // Up to the first failure, if there is one.
  std::optional<Failure> play(const Trace& trace);

 private:
  using Problem = std::optional<std::string>;

  Problem perform(const Operation& operation);
  Problem read(const Operation& operation);
  Problem write(const Operation& operation);
  Problem map_read(const Operation& operation);
  Problem map_write(const Operation& operation);
  Problem sync_map(const Operation& operation);
  Problem zero(const Operation& operation);
  Problem resize(const Operation& operation);
  Problem seek(const Operation& operation);
  Problem reopen(bool truncate);
  Problem drop_caches();
  std::span<std::byte> buffer(const Operation& operation);

  ImageFile& file_;
  Model& model_;
  const std::optional<std::uint32_t> spoil_from_;
  std::vector<std::byte> memory_;
};

// Makes the image and the model what they were at first (Model::reset).
std::optional<std::string> reset_content(const std::string& path, Model& model);

}  // namespace cryptimg::model
