// SPDX-License-Identifier: GPL-3.0-or-later
//
// What the sources of the command line parser share: cli.cc, and cli_create_mount.cc for the two
// commands with many options. Main thread, once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "fuse/cli.h"

namespace cryptimg {

inline constexpr const char* kExitCodes =
    "Exit codes: 0 ok, 1 wrong parameters, 2 wrong passphrase or key, 3 out of memory,\n"
    "4 a device or file is unusable or absent, 5 it exists or is busy.";

using Setter = std::function<Status(const std::string& value)>;

// The parser and what it fills. Setters run while CLI11 parses; the first error among them is kept
// here, since an exception of ours must not pass through it.
struct Parser {
  CLI::App app{"Serves the decrypted content of a LUKS container as one file, through FUSE",
               "cryptimg"};
  std::optional<Error> first_error;
  Command command;

  // An option (or, without dashes, an argument) with a value that `set` checks and stores.
  CLI::Option* add(CLI::App& to, const std::string& names, const std::string& placeholder,
                   const std::string& help, Setter set) {
    return to
        .add_option_function<std::string>(
            names,
            [this, set = std::move(set)](const std::string& value) {
              if (Status status = set(value); !status && !first_error) {
                first_error = std::move(status.error());
              }
            },
            help)
        ->type_name(placeholder);
  }

  CLI::App& add_command(const std::string& name, const std::string& description,
                        const std::string& notes = "") {
    CLI::App& command_app = *app.add_subcommand(name, description);
    command_app.footer(notes + (notes.empty() ? "" : "\n\n") + kExitCodes);
    return command_app;
  }
};

// Stores a value as it is.
template <typename Target>
Setter text(Target& target) {
  return [&target](const std::string& value) -> Status {
    target = value;
    return {};
  };
}

// For names and paths, which are never empty.
template <typename Target>
Setter path(std::string name, Target& target) {
  return [name = std::move(name), &target](const std::string& value) -> Status {
    if (value.empty()) {
      return fail(Errc::invalid_argument, name + " must not be empty");
    }
    target = value;
    return {};
  };
}

// From 1 to `maximum`; libcryptsetup and others count in int.
inline constexpr std::uint32_t kMaxNumber = 0x7fffffff;
Setter number(std::string name, std::optional<std::uint32_t>& target,
              std::uint32_t maximum = kMaxNumber);
// In bytes, or with a letter; not 0.
Setter size(std::string name, std::uint64_t& target);

// What the command line of mount says: what -o says is applied first, so that the options of its
// own win.
struct MountLine {
  MountOptions options;
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> values;

  // The options altogether, or what is wrong with a word.
  Result<Command> merge();
};

// Each adds its command, whose values go to what is given.
void add_create(Parser& parser, CreateCommandOptions& options);
void add_mount(Parser& parser, MountLine& line);

}  // namespace cryptimg
