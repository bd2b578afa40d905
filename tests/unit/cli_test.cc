// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/cli.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace cryptimg {
namespace {

Result<Command> parse(std::vector<const char*> arguments, const char* program = "cryptimg") {
  arguments.insert(arguments.begin(), program);
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

template <typename T>
T parsed(const std::vector<const char*>& arguments, const char* program = "cryptimg") {
  const auto command = parse(arguments, program);
  EXPECT_TRUE(command) << (command ? "" : command.error().message);
  if (!command || !std::holds_alternative<T>(*command)) {
    ADD_FAILURE() << "another command";
    return {};
  }
  return std::get<T>(*command);
}

std::string refusal(const std::vector<const char*>& arguments, const char* program = "cryptimg") {
  const auto command = parse(arguments, program);
  if (command) {
    ADD_FAILURE() << "accepted";
    return {};
  }
  EXPECT_EQ(command.error().code, Errc::invalid_argument);
  EXPECT_EQ(command.error().message.find('\n'), std::string::npos);
  EXPECT_NE(command.error().message.back(), '.');
  return command.error().message;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Cli, CreateWithEveryOption) {
  const auto options = parsed<CreateCommandOptions>({"create",
                                                     "c.img",
                                                     "--size",
                                                     "1G",
                                                     "--type",
                                                     "luks1",
                                                     "--cipher",
                                                     "aes-cbc-plain64",
                                                     "--key-size",
                                                     "256",
                                                     "--sector-size",
                                                     "512",
                                                     "--pbkdf",
                                                     "pbkdf2",
                                                     "--pbkdf-memory",
                                                     "64",
                                                     "--pbkdf-parallel",
                                                     "2",
                                                     "--pbkdf-force-iterations",
                                                     "1000",
                                                     "--iter-time",
                                                     "5",
                                                     "--key-file",
                                                     "-",
                                                     "--header",
                                                     "h",
                                                     "--label",
                                                     "",
                                                     "--uuid",
                                                     "u",
                                                     "--from",
                                                     "f",
                                                     "--preallocate",
                                                     "--force"});
  EXPECT_EQ(options.create.container, "c.img");
  EXPECT_EQ(options.create.size_bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(options.create.type, "luks1");
  EXPECT_EQ(options.create.cipher, "aes-cbc-plain64");
  EXPECT_EQ(options.create.key_size_bits, 256U);
  EXPECT_EQ(options.create.sector_size_bytes, 512U);
  EXPECT_EQ(options.create.pbkdf, "pbkdf2");
  EXPECT_EQ(options.create.pbkdf_memory_kib, 64U);
  EXPECT_EQ(options.create.pbkdf_parallel, 2U);
  EXPECT_EQ(options.create.pbkdf_force_iterations, 1000U);
  EXPECT_EQ(options.create.iter_time_ms, 5U);
  EXPECT_EQ(options.key_file, "-");
  EXPECT_EQ(options.create.header, "h");
  EXPECT_EQ(options.create.label, "");
  EXPECT_EQ(options.create.uuid, "u");
  EXPECT_EQ(options.from, "f");
  EXPECT_TRUE(options.create.preallocate);
  EXPECT_TRUE(options.create.force);
}

TEST(Cli, CreateLeavesWhatWasNotSaidOpen) {
  const auto options = parsed<CreateCommandOptions>({"create", "c.img", "--size=512"});
  EXPECT_EQ(options.create.size_bytes, 512U);
  EXPECT_EQ(options.create.type, "luks2");
  EXPECT_FALSE(options.create.cipher || options.create.key_size_bits || options.create.label ||
               options.create.pbkdf || options.key_file || options.from);
}

TEST(Cli, MountWithEveryOption) {
  const auto options = parsed<MountOptions>({"mount",
                                             "-r",
                                             "-d",
                                             "k",
                                             "--header",
                                             "h",
                                             "--key-slot",
                                             "7",
                                             "--engine",
                                             "openssl",
                                             "--offload-unit",
                                             "sector",
                                             "--workers",
                                             "3",
                                             "--max-read-size",
                                             "64K",
                                             "--max-write-size",
                                             "4096",
                                             "--coalesce",
                                             "off",
                                             "--max-extent",
                                             "64K",
                                             "--readahead",
                                             "16M",
                                             "-f",
                                             "--log-file",
                                             "l",
                                             "--log-level",
                                             "debug",
                                             "-o",
                                             "allow_other,uid=5",
                                             "-o",
                                             "umask=027",
                                             "c.img",
                                             "/mnt"});
  EXPECT_EQ(options.container, "c.img");
  EXPECT_EQ(options.mountpoint, "/mnt");
  EXPECT_TRUE(options.read_only);
  EXPECT_EQ(options.key_file, "k");
  EXPECT_EQ(options.header, "h");
  EXPECT_EQ(options.keyslot, 7);
  EXPECT_EQ(options.engine, "openssl");
  EXPECT_TRUE(options.offload_by_sector);
  EXPECT_EQ(options.workers, 3U);
  EXPECT_EQ(options.max_read_size_bytes, 65536U);
  EXPECT_EQ(options.max_write_size_bytes, 4096U);
  EXPECT_FALSE(options.coalesce);
  EXPECT_EQ(options.max_extent_bytes, 65536U);
  EXPECT_EQ(options.readahead_bytes, 16777216U);
  EXPECT_TRUE(options.foreground);
  EXPECT_EQ(options.log_file, "l");
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_TRUE(options.allow_other);
  EXPECT_EQ(options.uid, 5U);
  EXPECT_EQ(options.umask, 027U);
}

TEST(Cli, MountsGuards) {
  const auto options =
      parsed<MountOptions>({"mount", "c", "m", "--require-cipher", "aes-xts-plain64", "--uuid",
                            "1-2", "--allow-costly-kdf", "--no-sandbox"});
  EXPECT_EQ(options.require_cipher, "aes-xts-plain64");
  EXPECT_EQ(options.uuid, "1-2");
  EXPECT_TRUE(options.allow_costly_kdf);
  EXPECT_FALSE(options.sandbox);
  const auto by_word = parsed<MountOptions>({"mount", "c", "m", "-o", "no-sandbox"});
  EXPECT_FALSE(by_word.sandbox);
  EXPECT_FALSE(by_word.allow_costly_kdf);
  const auto plain = parsed<MountOptions>({"mount", "c", "m"});
  EXPECT_TRUE(plain.sandbox);
}

TEST(Cli, MountsOwnOptionsWinOverWords) {
  const auto options =
      parsed<MountOptions>({"mount", "c", "m", "-r", "--workers", "1", "-o", "rw,workers=2"});
  EXPECT_TRUE(options.read_only);
  EXPECT_EQ(options.workers, 1U);
}

TEST(Cli, WhatIsMergedAndReadAheadIsChosenAtTheMount) {
  const auto defaults = parsed<MountOptions>({"mount", "c", "m"});
  EXPECT_TRUE(defaults.coalesce);
  EXPECT_EQ(defaults.max_extent_bytes, 1048576U);
  EXPECT_EQ(defaults.readahead_bytes, 8388608U);
  const auto options = parsed<MountOptions>({"mount", "c", "m", "--coalesce=on", "--readahead", "0",
                                             "-o", "coalesce=off,readahead=8M,max-extent=128K"});
  EXPECT_TRUE(options.coalesce);
  EXPECT_EQ(options.max_extent_bytes, 131072U);
  EXPECT_EQ(options.readahead_bytes, 0U);
  const std::string help = parsed<ShowText>({"mount", "--help"}).text;
  for (const char* option : {"--coalesce", "--max-extent", "--readahead", "--backing-io"}) {
    EXPECT_TRUE(says(help, option)) << help;
    EXPECT_TRUE(says(refusal({"mount", "c", "m", option, "x"}), option));
    EXPECT_TRUE(says(refusal({"mount", "c", "m", option}), option));
  }
}

TEST(Cli, AHelperOfMountTakesItsArguments) {
  const auto options =
      parsed<MountOptions>({"c.img", "/mnt", "-n", "-sv", "-o", "ro,noauto,key-file=k", "-t",
                            "fuse.cryptimg", "-N", "/proc/1/ns/mnt"},
                           "/sbin/mount.fuse.cryptimg");
  EXPECT_EQ(options.container, "c.img");
  EXPECT_EQ(options.mountpoint, "/mnt");
  EXPECT_TRUE(options.read_only);
  EXPECT_EQ(options.key_file, "k");
  EXPECT_EQ(parsed<ShowText>({"c.img", "/mnt", "-f"}, "mount.cryptimg").text, "");
  EXPECT_TRUE(says(refusal({"c.img"}, "mount.cryptimg"), "mount point"));
  EXPECT_TRUE(says(refusal({"c.img", "/mnt", "-o"}, "mount.cryptimg"), "-o"));
  EXPECT_TRUE(says(refusal({"c.img", "/mnt", "--force"}, "mount.cryptimg"), "--force"));
}

TEST(Cli, TheOthers) {
  const auto umount = parsed<UmountOptions>({"umount", "--lazy", "/a", "[b,c]", "d"});
  EXPECT_EQ(umount.targets, (std::vector<std::string>{"/a", "./[b,c]", "d"}));
  EXPECT_TRUE(umount.lazy);
  EXPECT_EQ(parsed<UmountOptions>({"umount", "--", "-x"}).targets[0], "-x");
  EXPECT_FALSE(parsed<StatusCommand>({"status"}).target);
  EXPECT_EQ(parsed<StatusCommand>({"status", "--json", "/a"}).target, "/a");
  const auto info = parsed<InfoCommand>({"info", "--json", "[x]", "--header", "h"});
  EXPECT_EQ(info.container, "[x]");
  EXPECT_EQ(info.header, "h");
  EXPECT_TRUE(info.json);
  EXPECT_TRUE(parsed<EnginesCommand>({"engines", "--json"}).json);
}

TEST(Cli, HelpIsEnoughToWorkFrom) {
  for (const char* command :
       {"create", "mount", "umount", "lock", "unlock", "status", "info", "engines"}) {
    const std::string help = parsed<ShowText>({command, "--help"}).text;
    EXPECT_TRUE(says(help, std::string("cryptimg ") + command)) << help;
    EXPECT_TRUE(says(help, "Exit codes")) << help;
    EXPECT_TRUE(says(parsed<ShowText>({"--help"}).text, command));
  }
  const std::string version = parsed<ShowText>({"--version"}).text;
  for (const char* library : {"libfuse", "libcryptsetup", "OpenSSL", "libsodium", "openssl"}) {
    EXPECT_TRUE(says(version, library)) << version;
  }
}

TEST(Cli, ErrorsNameTheOption) {
  EXPECT_TRUE(says(refusal({}), "command"));
  EXPECT_TRUE(says(refusal({"nonsense"}), "nonsense"));
  EXPECT_TRUE(says(refusal({"mount", "c"}), "MOUNTPOINT"));
  EXPECT_TRUE(says(refusal({"mount", "c", ""}), "MOUNTPOINT"));
  EXPECT_TRUE(says(refusal({"mount", "c", "m", "x"}), "x"));
  EXPECT_TRUE(says(refusal({"mount", "--nonsense", "c", "m"}), "--nonsense"));
  EXPECT_TRUE(says(refusal({"mount", "c", "m", "--workers", "-1"}), "--workers"));
  EXPECT_TRUE(says(refusal({"mount", "c", "m", "--workers"}), "--workers"));
  EXPECT_TRUE(says(refusal({"mount", "c", "m", "-o", "nonsense"}), "nonsense"));
  EXPECT_TRUE(says(refusal({"create", "c", "--size", "0"}), "--size"));
  EXPECT_TRUE(says(refusal({"create", "c", "--size", "-1"}), "--size"));
  EXPECT_TRUE(says(refusal({"create", "c", "--size", "1", "--size", "2"}), "--size"));
  EXPECT_TRUE(says(refusal({"create", "c", "--key-size", "x"}), "--key-size"));
  EXPECT_TRUE(says(refusal({"create", "c", "--iter-time", "4294967296"}), "--iter-time"));
  EXPECT_TRUE(says(refusal({"create", "c", "--iter-time", "4294967296"}), "2147483647"));
  EXPECT_TRUE(says(refusal({"create", "c", "--pbkdf-memory", "99999999999"}), "4194304"));
  EXPECT_TRUE(says(refusal({"create", "c", "--pbkdf-parallel", "0"}), "1 to 4"));
  EXPECT_TRUE(says(refusal({"umount"}), "TARGET"));
  EXPECT_TRUE(says(refusal({"info"}), "CONTAINER"));
  EXPECT_TRUE(says(refusal({"engines", "x"}), "x"));
}

TEST(Cli, TheFirstUnknownArgumentIsNamed) {
  EXPECT_EQ(refusal({"mount", "c", "m", "one", "two"}),
            "unknown argument one; see cryptimg mount --help");
  EXPECT_EQ(refusal({"frob", "x"}), "unknown argument frob; see cryptimg --help");
}

TEST(Cli, SizesNameTheirUnits) {
  EXPECT_TRUE(says(refusal({"create", "c", "--size", "1X"}), "K, M, G or T"));
}

TEST(Cli, HelpSaysOneObject) {
  for (const char* command : {"status", "info", "engines"}) {
    EXPECT_TRUE(says(parsed<ShowText>({command, "--help"}).text, "One JSON object")) << command;
  }
  EXPECT_TRUE(says(parsed<ShowText>({"--help"}, "/sbin/mount.fuse.cryptimg").text, "MOUNTPOINT"));
}

TEST(Cli, JsonIsWantedEvenOfWhatDoesNotParse) {
  const auto wants = [](std::vector<const char*> arguments) {
    return wants_json(static_cast<int>(arguments.size()), arguments.data());
  };
  EXPECT_TRUE(wants({"cryptimg", "info", "--json"}));
  EXPECT_TRUE(wants({"cryptimg", "--json", "nonsense"}));
  EXPECT_FALSE(wants({"cryptimg", "umount", "--", "--json"}));
  EXPECT_FALSE(wants({"cryptimg"}));
}

}  // namespace
}  // namespace cryptimg
