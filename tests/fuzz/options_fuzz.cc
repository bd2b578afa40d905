// SPDX-License-Identifier: GPL-3.0-or-later
//
// Numbers, sizes, mount options and command lines, as an fstab or another program may hand them
// on. Input: one byte that chooses, then the text; a command line has an argument a line.
#include <cctype>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fuse/cli.h"
#include "fuse/mount_options.h"
#include "fuse/sizes.h"
#include "tests/fuzz/fuzz.h"

namespace cryptimg::fuzz {
namespace {

Reach reach{"size",         "no size",         "words",
            "no words",     "command line",    "no command line",
            "mount helper", "no mount helper", "value came back"};

// The value of digits, saturated; nothing where there is anything else. The slow and plain way.
std::optional<long double> plain_value(std::string_view text, int base) {
  if (text.empty()) {
    return std::nullopt;
  }
  long double value = 0;
  for (const char c : text) {
    if (c < '0' || c >= '0' + base) {
      return std::nullopt;
    }
    value = value * base + (c - '0');
  }
  return value;
}

void check_sizes(std::string_view text) {
  std::string_view digits = text;
  long double unit = 1;
  if (!text.empty()) {
    const std::size_t at = std::string_view("kmgt").find(
        static_cast<char>(std::tolower(static_cast<unsigned char>(text.back()))));
    for (std::size_t i = 0; at != std::string_view::npos && i <= at; ++i) {
      unit *= 1024;
    }
    digits = unit > 1 ? text.substr(0, text.size() - 1) : text;
  }
  const auto size = parse_size(text);
  const auto plain = plain_value(digits, 10);
  // 64 bits of mantissa: exact as far as a size goes.
  constexpr long double kTop = 9223372036854775807.0L;
  reach.at(size ? "size" : "no size");
  FUZZ_CHECK(size.has_value() == (plain && *plain * unit <= kTop));
  FUZZ_CHECK(!size || static_cast<long double>(*size) == *plain * unit);

  const auto number = parse_number(text, 3, 100000);
  const auto value = plain_value(text, 10);
  FUZZ_CHECK(number.has_value() == (value && *value >= 3 && *value <= 100000));
  const auto mode = parse_octal_mode(text);
  const auto octal = plain_value(text, 8);
  FUZZ_CHECK(mode.has_value() == (octal && *octal <= 0777));
  FUZZ_CHECK(!size || is_one_line(size_text(*size)));
}

void check_options(const MountOptions& options) {
  FUZZ_CHECK(!options.keyslot || (*options.keyslot >= 0 && *options.keyslot <= 31));
  FUZZ_CHECK(!options.workers || *options.workers <= 256);
  FUZZ_CHECK(!options.umask || *options.umask <= 0777);
  FUZZ_CHECK(!(options.allow_other && options.allow_root));
  FUZZ_CHECK(!options.key_file || !options.key_file->empty());
}

void check_words(std::string_view text) {
  MountOptions options;
  const Status status = apply_mount_words(options, text);
  reach.at(status ? "words" : "no words");
  if (status) {
    check_options(options);
  } else {
    FUZZ_CHECK(status.error().code == Errc::invalid_argument && !status.error().message.empty());
  }
}

// Any path survives -o, once it is escaped.
void check_escaping(std::string_view path) {
  std::string words = "ro,key-file=";
  for (const char c : path) {
    words += c == ',' || c == '\\' ? "\\" : "";
    words += c;
  }
  MountOptions options;
  const Status status = apply_mount_words(options, words + ",allow_root");
  FUZZ_CHECK(status.has_value() == !path.empty());
  FUZZ_CHECK(path.empty() || (options.key_file == path && options.allow_root));
  reach.at("value came back");
}

void check_command_line(std::string_view text, bool helper) {
  std::vector<std::string> words = {"cryptimg"};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    words.emplace_back(line.substr(0, line.find('\0')));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(word.c_str());
  }
  const auto argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  const Result<Command> command = helper ? parse_mount_helper(argc, arguments.data())
                                         : parse_command_line(argc, arguments.data());
  static_cast<void>(wants_json(argc, arguments.data()));
  const std::string place = helper ? "mount helper" : "command line";
  if (!command) {
    FUZZ_CHECK(command.error().code == Errc::invalid_argument && !command.error().message.empty());
    reach.at("no " + place);
    return;
  }
  if (const auto* const mount = std::get_if<MountOptions>(&*command)) {
    reach.at(place);
    check_options(*mount);
    FUZZ_CHECK(!mount->container.empty() && !mount->mountpoint.empty());
  }
}

}  // namespace
}  // namespace cryptimg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg::fuzz;
  Input input(data, size);
  switch (input.number(1) % 5) {
    case 0:
      check_sizes(input.rest());
      break;
    case 1:
      check_words(input.rest());
      break;
    case 2:
      check_escaping(input.rest());
      break;
    case 3:
      check_command_line(input.rest(), false);
      break;
    default:
      check_command_line(input.rest(), true);
      break;
  }
  return 0;
}
