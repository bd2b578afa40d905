// SPDX-License-Identifier: GPL-3.0-or-later
//
// The command lines of create and mount.
#include <cstdint>
#include <string>
#include <utility>

#include "fuse/cli_parser.h"
#include "fuse/mount_options.h"
#include "fuse/sizes.h"

namespace cryptimg {

Setter number(std::string name, std::optional<std::uint32_t>& target, std::uint32_t maximum) {
  return [name = std::move(name), &target, maximum](const std::string& value) -> Status {
    const auto parsed = parse_number(value, 1, maximum);
    if (!parsed) {
      return fail(Errc::invalid_argument, name + " must be a number from 1 to " +
                                              std::to_string(maximum) + ", not \"" + value + "\"");
    }
    target = static_cast<std::uint32_t>(*parsed);
    return {};
  };
}

Setter size(std::string name, std::uint64_t& target) {
  return [name = std::move(name), &target](const std::string& value) -> Status {
    const auto parsed = parse_size(value);
    if (!parsed || *parsed == 0) {
      return fail(Errc::invalid_argument,
                  name + " must be a size in bytes, or with K, M, G or T as in 512M, not \"" +
                      value + "\"");
    }
    target = *parsed;
    return {};
  };
}

void add_create(Parser& parser, CreateCommandOptions& options) {
  CLI::App& app = parser.add_command(
      "create", "Create a LUKS container",
      "SIZE is in bytes, or with K, M, G, T in powers of 1024; it is the size of the decrypted\n"
      "image, the container is larger by the header. A block device is taken whole without "
      "--size.\n"
      "Defaults: luks2, aes-xts-plain64, 512-bit key, 4096-byte sectors, argon2id; for luks1\n"
      "512-byte sectors and pbkdf2; for cbc a 256-bit key.\n"
      "The passphrase is asked for twice on a terminal; from a pipe it is read up to the first\n"
      "newline; a key file counts whole, its newline too.");
  CreateOptions& create = options.create;
  parser
      .add(app, "CONTAINER", "", "File to create, or block device to use",
           path("CONTAINER", create.container))
      ->required();
  parser.add(app, "-s,--size", "SIZE", "Size of the decrypted image",
             size("--size", create.size_bytes));
  parser.add(app, "--type", "TYPE", "luks2 (default) or luks1", text(create.type));
  parser.add(app, "-c,--cipher", "CIPHER",
             "aes-xts-plain64 (default), aes-xts-plain, aes-cbc-essiv:sha256, aes-cbc-plain64, "
             "aes-cbc-plain",
             text(create.cipher));
  parser.add(app, "--key-size", "BITS", "Volume key: xts 256 or 512, cbc 128, 192 or 256",
             number("--key-size", create.key_size_bits));
  parser.add(app, "--sector-size", "BYTES", "Encryption sector: 512, 1024, 2048 or 4096",
             number("--sector-size", create.sector_size_bytes));
  parser.add(app, "--pbkdf", "NAME", "argon2id, argon2i or pbkdf2", text(create.pbkdf));
  parser.add(app, "--pbkdf-memory", "KIB", "Memory of argon2",
             number("--pbkdf-memory", create.pbkdf_memory_kib, kMaxPbkdfMemoryKib));
  parser.add(app, "--pbkdf-parallel", "N", "Threads of argon2",
             number("--pbkdf-parallel", create.pbkdf_parallel, kMaxPbkdfParallel));
  parser.add(app, "--pbkdf-force-iterations", "N", "Iterations, instead of measuring",
             number("--pbkdf-force-iterations", create.pbkdf_force_iterations));
  parser.add(app, "-i,--iter-time", "MS", "How long one try of a passphrase shall take",
             number("--iter-time", create.iter_time_ms));
  parser.add(app, "-d,--key-file", "FILE", "Use this file's content as the passphrase; - is stdin",
             path("--key-file", options.key_file));
  parser.add(app, "--header", "FILE", "Put the header into this file of its own",
             path("--header", create.header));
  parser.add(app, "--label", "LABEL", "Label in a LUKS2 header", text(create.label));
  parser.add(app, "--uuid", "UUID", "UUID of the header, instead of a random one",
             text(create.uuid));
  parser.add(app, "--from", "FILE",
             "Encrypt this file's content, holes too, into the container; its size is the default",
             path("--from", options.from));
  app.add_flag("--preallocate", create.preallocate, "Reserve the space; default: a sparse file");
  app.add_flag("--force", create.force, "Overwrite what exists");
}

Result<Command> MountLine::merge() {
  const bool read_only = options.read_only;
  const bool foreground = options.foreground;
  const bool allow_costly_kdf = options.allow_costly_kdf;
  const bool sandbox = options.sandbox;
  std::string all;
  for (const std::string& some : words) {
    all += (all.empty() ? "" : ",") + some;
  }
  CRYPTIMG_RETURN_IF_ERROR(apply_mount_words(options, all));
  for (const auto& [name, value] : values) {
    CRYPTIMG_RETURN_IF_ERROR(set_mount_option(options, name, value));
  }
  options.read_only = options.read_only || read_only;
  options.foreground = options.foreground || foreground;
  options.allow_costly_kdf = options.allow_costly_kdf || allow_costly_kdf;
  options.sandbox = options.sandbox && sandbox;
  return Command(std::move(options));
}

void add_mount(Parser& parser, MountLine& line) {
  MountOptions& options = line.options;
  CLI::App& app = parser.add_command(
      "mount", "Serve a container's decrypted content as one file",
      "MOUNTPOINT is an existing directory (make it with mkdir), and the file is\n"
      "MOUNTPOINT/image; or it is an existing regular file, which becomes the image.\n"
      "The command returns when the file works; a daemon stays behind.\n"
      "The passphrase is asked for on a terminal, up to three times; from a pipe it is read up to\n"
      "the first newline; a key file counts whole, its newline too.\n"
      "-o takes, between commas: ro, rw, allow_other, allow_root, default_permissions,\n"
      "uid= and gid= (number or name), umask=OCTAL, and every long option above as name=value\n"
      "(readonly, foreground, no-sandbox, allow-costly-kdf as the bare name).\n"
      "A comma in a value is written \\, and these words, meant for others, are ignored:\n"
      "defaults, auto, noauto, nofail, user, nouser, users, group, owner, _netdev, nosuid, nodev,\n"
      "noexec, noatime, relatime, nodiratime, comment=..., x-... and X-...");
  const auto value = [&](const std::string& names, const std::string& name,
                         const std::string& placeholder, const std::string& help) {
    parser.add(app, names, placeholder, help, [&line, name](const std::string& given) -> Status {
      MountOptions trial;
      Status status = set_mount_option(trial, name, given);
      if (!status) {
        status.error().message.insert(0, "--");
      }
      line.values.emplace_back(name, given);
      return status;
    });
  };
  parser
      .add(app, "CONTAINER", "", "File or block device with a LUKS container",
           path("CONTAINER", options.container))
      ->required();
  parser
      .add(app, "MOUNTPOINT", "", "Directory, or regular file",
           path("MOUNTPOINT", options.mountpoint))
      ->required();
  app.add_flag("-r,--readonly", options.read_only, "Change no byte; several may mount this way");
  value("-d,--key-file", "key-file", "FILE",
        "Use this file's content as the passphrase; - is stdin");
  value("--header", "header", "FILE", "The header is in this file of its own");
  value("-S,--key-slot", "key-slot", "N", "Try this keyslot only");
  value("--require-cipher", "require-cipher", "CIPHER", "Refuse a header with another cipher");
  value("--uuid", "uuid", "UUID", "Refuse a header with another UUID");
  app.add_flag("--allow-costly-kdf", options.allow_costly_kdf,
               "Derive the key whatever memory and time the header asks for");
  value("--engine", "engine", "NAME",
        "Cipher engine, or afalg:DRIVER; default: auto (see cryptimg engines)");
  value("--offload-unit", "offload-unit", "UNIT",
        "Engine afalg: an operation for each extent (default) or sector");
  value("--workers", "workers", "N", "Threads that help ciphering; default: cores - 1");
  value("--max-read-size", "max-read-size", "SIZE",
        "Cut reads into pieces of at most this size; 0: the default of 1048576");
  value("--max-write-size", "max-write-size", "SIZE", "The same for writes");
  value("--coalesce", "coalesce", "on|off",
        "Make requests that are queued together one extent; default: on");
  value("--max-extent", "max-extent", "SIZE", "Of which at most so long; default: 1M, the most");
  value("--readahead", "readahead", "SIZE",
        "Memory for deciphering ahead of sequential readers; 0: off; default: 8M");
  value("--backing-io", "backing-io", "MODE", "auto (default), mapped, buffered or direct");
  app.add_flag("-f,--foreground", options.foreground, "Stay in the foreground, log to stderr");
  app.add_flag_callback(
      "--no-sandbox", [&options] { options.sandbox = false; },
      "Leave the daemon its rights: for debugging");
  value("--log-file", "log-file", "FILE", "Log here instead of to syslog");
  value("--log-level", "log-level", "LEVEL",
        "trace, debug, info (default), warning, error, critical or off");
  app.add_option("-o", line.words, "Mount options, between commas")
      ->type_name("OPTIONS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

}  // namespace cryptimg
