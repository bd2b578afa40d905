// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/vector_file.h"

#include <charconv>
#include <fstream>
#include <sstream>

namespace cryptimg::test {
namespace {

constexpr const char* kSpaces = " \t\r";

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) {
    return {};
  }
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The whole of `text` as a number, or failure.
template <typename T>
bool parse_number(const std::string& text, int base, T& value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc{} && at == end;
}

}  // namespace

void VectorRecord::complain(const std::string& what) const {
  throw VectorError(place_ + ": " + what);
}

void VectorRecord::add(const std::string& attribute, const std::string& value) {
  if (!values_.emplace(attribute, Value{value}).second) {
    complain("'" + attribute + "' is given twice");
  }
  last_attribute_ = attribute;
}

void VectorRecord::extend(const std::string& more) {
  values_.at(last_attribute_).text += more;
}

std::string VectorRecord::text(const std::string& attribute) {
  const auto found = values_.find(attribute);
  if (found == values_.end()) {
    complain("'" + attribute + "' is missing");
  }
  found->second.read = true;
  return found->second.text;
}

std::uint64_t VectorRecord::number(const std::string& attribute) {
  std::uint64_t value = 0;
  if (!parse_number(text(attribute), 10, value)) {
    complain("'" + attribute + "' is no number");
  }
  return value;
}

std::vector<std::byte> VectorRecord::bytes(const std::string& attribute) {
  const std::string hex = text(attribute);
  if (hex.empty() || hex.size() % 2 != 0) {
    complain("'" + attribute + "' is no whole number of bytes");
  }
  std::vector<std::byte> result;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned char value = 0;
    if (!parse_number(hex.substr(i, 2), 16, value)) {
      complain("'" + attribute + "' is not hexadecimal");
    }
    result.push_back(std::byte{value});
  }
  return result;
}

void VectorRecord::expect_all_read() const {
  for (const auto& [attribute, value] : values_) {
    if (!value.read) {
      complain("nothing reads '" + attribute + "'");
    }
  }
}

std::vector<VectorRecord> parse_vectors(const std::string& text, const std::string& name) {
  std::vector<VectorRecord> records;
  std::istringstream lines(text);
  std::string line;
  bool in_record = false;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = name + ":" + std::to_string(number);
    const std::string content = trimmed(line);
    if (content.empty()) {
      in_record = false;
    } else if (line.front() == '#') {
      continue;
    } else if (line.front() == ' ') {
      if (!in_record) {
        throw VectorError(place + ": continues nothing");
      }
      records.back().extend(content);
    } else {
      const std::size_t equals = content.find('=');
      const std::string attribute = trimmed(content.substr(0, equals));
      if (equals == std::string::npos || attribute.empty()) {
        throw VectorError(place + ": no 'attribute = value'");
      }
      if (!in_record) {
        records.emplace_back(place);
        in_record = true;
      }
      records.back().add(attribute, trimmed(content.substr(equals + 1)));
    }
  }
  if (records.empty()) {
    throw VectorError(name + ": no records");
  }
  return records;
}

void for_each_vector(const std::string& file_name,
                     const std::function<void(VectorRecord& record)>& check) {
  std::ifstream file(std::string(CRYPTIMG_VECTOR_DIR) + "/" + file_name);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw VectorError(file_name + ": cannot be read");
  }
  for (VectorRecord& record : parse_vectors(text.str(), file_name)) {
    check(record);
    record.expect_all_read();
  }
}

}  // namespace cryptimg::test
