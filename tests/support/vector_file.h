// SPDX-License-Identifier: GPL-3.0-or-later
//
// Test vectors in text files. A file is records, separated by blank lines; a record is lines of
//   attribute = value
// A value goes on over following lines that begin with a space (joined without the spaces); lines
// beginning with # are comments. The parser is strict: whatever it does not understand, a repeated
// or missing attribute, and an attribute that nobody reads are failures, so that no part of a
// vector can go untested unnoticed. Failures throw VectorError, which GoogleTest reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace cryptimg::test {

class VectorError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class VectorRecord {
 public:
  explicit VectorRecord(std::string place) : place_(std::move(place)) {}

  // "file:line" of its first attribute.
  [[nodiscard]] const std::string& place() const { return place_; }
  // Throws where the record has it already.
  void add(const std::string& attribute, const std::string& value);
  // Lengthens the value of the attribute added last.
  void extend(const std::string& more);

  // The value of an attribute, which counts as read from now on.
  std::string text(const std::string& attribute);
  std::uint64_t number(const std::string& attribute);          // decimal
  std::vector<std::byte> bytes(const std::string& attribute);  // hexadecimal, at least one byte

  // Throws, naming it, where an attribute was not read.
  void expect_all_read() const;

 private:
  struct Value {
    std::string text;
    bool read = false;
  };
  [[noreturn]] void complain(const std::string& what) const;

  std::string place_;
  std::string last_attribute_;
  std::map<std::string, Value> values_;
};

// The records of `text`; `name` stands for it in messages. Throws where there is none.
std::vector<VectorRecord> parse_vectors(const std::string& text, const std::string& name);

// Calls `check` with each record of a file in tests/vectors/ and expects it to read all of it.
void for_each_vector(const std::string& file_name,
                     const std::function<void(VectorRecord& record)>& check);

}  // namespace cryptimg::test
