// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/cli.h"

#include <cctype>
#include <cstddef>
#include <deque>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "fuse/cli_parser.h"
#include "fuse/mount_options.h"

namespace cryptimg {
namespace {

void add_others(Parser& parser, UmountOptions& umount, StatusCommand& status, InfoCommand& info,
                EnginesCommand& engines) {
  CLI::App& umount_app = parser.add_command(
      "umount", "Unmount; returns when every byte is on disk and the daemon is gone",
      "Where something still holds the image, says what and changes nothing.");
  umount_app.add_option("TARGET", umount.targets, "Mount points or containers")
      ->type_name("")
      ->required()
      ->expected(1, std::numeric_limits<int>::max());
  umount_app.add_flag("-l,--lazy", umount.lazy,
                      "Take the mount away even if it is busy; the daemon serves on until the last "
                      "user lets go, and a failed flush is not reported");

  CLI::App& status_app =
      parser.add_command("status", "Show what is mounted where, how, and how busy it is");
  parser.add(status_app, "TARGET", "", "Only this mount point or container",
             path("TARGET", status.target));
  status_app.add_flag("--json", status.json, "One JSON object");

  CLI::App& info_app = parser.add_command(
      "info", "Show what a container's header says; asks for no passphrase, changes nothing");
  parser
      .add(info_app, "CONTAINER", "", "File or block device with a LUKS container",
           path("CONTAINER", info.container))
      ->required();
  parser.add(info_app, "--header", "FILE", "The header is in this file of its own",
             path("--header", info.header));
  info_app.add_flag("--json", info.json, "One JSON object");

  CLI::App& engines_app =
      parser.add_command("engines", "Show which cipher engines there are, which is chosen and why");
  engines_app.add_flag("--json", engines.json, "One JSON object");
}

void add_lock(Parser& parser, LockOptions& lock, UnlockOptions& unlock) {
  CLI::App& lock_app = parser.add_command(
      "lock", "Take the keys out of a mount, without unmounting it",
      "What was written is flushed first. Then there is no key and no plaintext in the daemon, "
      "and\n"
      "nothing of the image in the kernel's cache, until unlock. Reads and writes fail (EIO).");
  parser.add(lock_app, "TARGET", "", "Mount point or container", path("TARGET", lock.target))
      ->required();
  lock_app.add_flag("--hold", lock.holds,
                    "Requests wait for unlock instead; whoever waits can keep a machine from "
                    "suspending");

  CLI::App& unlock_app =
      parser.add_command("unlock", "Put the keys back into a mount that was locked",
                         "The header is read and the passphrase asked for as by mount.");
  parser.add(unlock_app, "TARGET", "", "Mount point or container", path("TARGET", unlock.target))
      ->required();
  const auto value = [&](const std::string& names, const std::string& name,
                         const std::string& placeholder, const std::string& help) {
    parser.add(unlock_app, names, placeholder, help,
               [&unlock, name](const std::string& given) -> Status {
                 Status status = set_mount_option(unlock.mount, name, given);
                 if (!status) {
                   status.error().message.insert(0, "--");
                 }
                 return status;
               });
  };
  value("-d,--key-file", "key-file", "FILE",
        "Use this file's content as the passphrase; - is stdin");
  value("--header", "header", "FILE", "The header is in this file; default: the one mounted with");
  value("-S,--key-slot", "key-slot", "N", "Try this keyslot only");
  unlock_app.add_flag("--allow-costly-kdf", unlock.mount.allow_costly_kdf,
                      "Derive the key whatever memory and time the header asks for");
}

// CLI11's message as one sentence of ours.
std::string sentence(const CLI::ParseError& error, const CLI::App& app) {
  std::string message = error.what();
  message = message.substr(0, message.find('\n'));
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> unknown = app.remaining(true);
    message = "unknown argument" + (unknown.empty() ? "" : " " + unknown.front());
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    message = message.substr(0, message.find(':')) + " must be given once, with one value";
  }
  while (!message.empty() && (message.back() == '.' || message.back() == ' ')) {
    message.pop_back();
  }
  if (message.size() > 1 && std::islower(static_cast<unsigned char>(message[1])) != 0) {
    message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
  }
  const auto chosen = app.get_subcommands();
  return message + "; see cryptimg " + (chosen.empty() ? "" : chosen.front()->get_name() + " ") +
         "--help";
}

// CLI11 takes "[a,b]" for a list of two where several targets may stand.
std::vector<const char*> without_lists(int argc, const char* const* argv,
                                       std::deque<std::string>& renamed) {
  std::vector<const char*> arguments(argv, argv + argc);
  for (const char*& argument : arguments) {
    if (*argument == '[') {
      argument = renamed.emplace_back("./" + std::string(argument)).c_str();
    }
  }
  return arguments;
}

bool called_as_helper(std::string_view program) {
  const std::size_t slash = program.rfind('/');
  return program.substr(slash == std::string_view::npos ? 0 : slash + 1).substr(0, 6) == "mount.";
}

}  // namespace

bool wants_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") {
      return true;
    }
  }
  return false;
}

Result<Command> parse_command_line(int argc, const char* const* argv) {
  if (argc > 0 && called_as_helper(argv[0])) {
    return parse_mount_helper(argc, argv);
  }
  Parser parser;
  CreateCommandOptions create;
  MountLine mount;
  UmountOptions umount;
  LockOptions lock;
  UnlockOptions unlock;
  StatusCommand status;
  InfoCommand info;
  EnginesCommand engines;
  bool version = false;
  parser.app.add_flag("-V,--version", version,
                      "Show the versions of the program and its libraries");
  parser.app.require_subcommand(0, 1);
  parser.app.footer("cryptimg COMMAND --help says more about each command.\n\n" +
                    std::string(kExitCodes));
  add_create(parser, create);
  add_mount(parser, mount);
  add_others(parser, umount, status, info, engines);
  add_lock(parser, lock, unlock);
  const bool unmounting = argc > 1 && std::string_view(argv[1]) == "umount";
  std::deque<std::string> renamed;
  const std::vector<const char*> arguments =
      unmounting ? without_lists(argc, argv, renamed) : std::vector<const char*>(argv, argv + argc);
  try {
    parser.app.parse(argc, arguments.data());
  } catch (const CLI::CallForHelp&) {
    return Command(ShowText{parser.app.help()});
  } catch (const CLI::ParseError& error) {
    return fail(Errc::invalid_argument, sentence(error, parser.app));
  }
  if (parser.first_error) {
    return tl::unexpected(std::move(*parser.first_error));
  }
  if (version) {
    return Command(ShowText{version_text()});
  }
  if (parser.app.got_subcommand("create")) {
    return Command(std::move(create));
  }
  if (parser.app.got_subcommand("mount")) {
    return mount.merge();
  }
  if (parser.app.got_subcommand("umount")) {
    return Command(std::move(umount));
  }
  if (parser.app.got_subcommand("lock")) {
    return Command(std::move(lock));
  }
  if (parser.app.got_subcommand("unlock")) {
    return Command(std::move(unlock));
  }
  if (parser.app.got_subcommand("status")) {
    return Command(std::move(status));
  }
  if (parser.app.got_subcommand("info")) {
    return Command(std::move(info));
  }
  if (parser.app.got_subcommand("engines")) {
    return Command(engines);
  }
  return fail(Errc::invalid_argument, "a command is needed; see cryptimg --help");
}

}  // namespace cryptimg
