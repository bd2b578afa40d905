// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_options.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <grp.h>
#include <pwd.h>

#include "core/cipher_engine.h"
#include "fuse/sizes.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kMaxKeyslot = 31;                         // LUKS2 has 32
constexpr std::uint64_t kMaxWorkers = 256;                        // more than any use
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1} << 30;  // far above FUSE's 1 MiB
constexpr std::uint64_t kMaxId = std::numeric_limits<std::uint32_t>::max() - 1;  // -1: no one

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::array<std::string_view, 7> kLogLevels = {"trace", "debug",    "info", "warning",
                                                        "error", "critical", "off"};

// Words of fstab(5) and mount(8) for whoever reads fstab; nosuid and nodev hold on every FUSE
// mount, the one file there is cannot be executed, and no access times are kept.
constexpr std::array<std::string_view, 16> kIgnored = {
    "defaults", "auto",    "noauto", "nofail", "user",   "nouser",  "users",    "group",
    "owner",    "_netdev", "nosuid", "nodev",  "noexec", "noatime", "relatime", "nodiratime"};

bool is_ignored(std::string_view word) {
  return std::find(kIgnored.begin(), kIgnored.end(), word) != kIgnored.end() ||
         word.substr(0, 2) == "x-" || word.substr(0, 2) == "X-" || word.substr(0, 8) == "comment=";
}

tl::unexpected<Error> bad_value(std::string_view name, const std::string& value,
                                const std::string& wanted) {
  return fail(Errc::invalid_argument,
              std::string(name) + " must be " + wanted + ", not \"" + value + "\"");
}

Result<std::uint32_t> number_option(std::string_view name, const std::string& value,
                                    std::uint64_t maximum) {
  const auto number = parse_number(value, 0, maximum);
  if (!number) {
    return bad_value(name, value, "a number from 0 to " + std::to_string(maximum));
  }
  return static_cast<std::uint32_t>(*number);
}

Result<std::uint32_t> chunk_option(std::string_view name, const std::string& value) {
  const auto bytes = parse_size(value);
  if (!bytes || *bytes > kMaxChunkBytes) {
    return bad_value(name, value, "a size from 0 (the default) to 1G, in bytes or with K, M or G");
  }
  return static_cast<std::uint32_t>(*bytes);
}

// A user or a group, by number or by name.
Result<std::uint32_t> id_option(std::string_view name, const std::string& value) {
  if (const auto number = parse_number(value, 0, kMaxId)) {
    return static_cast<std::uint32_t>(*number);
  }
  const bool is_user = name == "uid";
  if (const passwd* const user = is_user ? ::getpwnam(value.c_str()) : nullptr) {
    return user->pw_uid;
  }
  if (const group* const found = is_user ? nullptr : ::getgrnam(value.c_str())) {
    return found->gr_gid;
  }
  return bad_value(name, value,
                   std::string("a number, or the name of a ") + (is_user ? "user" : "group"));
}

struct Word {
  std::string name;
  std::optional<std::string> value;
};

std::vector<Word> split_words(std::string_view text) {
  std::vector<Word> words(1);
  const auto target = [&]() -> std::string& {
    return words.back().value ? *words.back().value : words.back().name;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      target().push_back(text[++i]);
    } else if (text[i] == ',') {
      words.emplace_back();
    } else if (text[i] == '=' && !words.back().value) {
      words.back().value.emplace();
    } else {
      target().push_back(text[i]);
    }
  }
  std::erase_if(words, [](const Word& word) { return word.name.empty() && !word.value; });
  return words;
}

// The words without a value; false where `name` is none of them.
bool set_flag(MountOptions& options, const std::string& name) {
  if (name == "ro" || name == "readonly") {
    options.read_only = true;
  } else if (name == "rw") {
    options.read_only = false;
  } else if (name == "allow_other") {
    options.allow_other = true;
  } else if (name == "allow_root") {
    options.allow_root = true;
  } else if (name == "default_permissions") {
    options.default_permissions = true;
  } else if (name == "foreground") {
    options.foreground = true;
  } else if (name == "no-sandbox") {
    options.sandbox = false;
  } else if (name == "allow-costly-kdf") {
    options.allow_costly_kdf = true;
  } else {
    return false;
  }
  return true;
}

Status set_value(MountOptions& options, const std::string& name, const std::string& value) {
  if (name == "uid") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.uid, id_option(name, value));
  } else if (name == "gid") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.gid, id_option(name, value));
  } else if (name == "umask") {
    options.umask = parse_octal_mode(value);
    if (!options.umask) {
      return bad_value(name, value, "an octal number from 0 to 777");
    }
  } else if (name == "max_read_size" || name == "max_write_size") {
    return set_mount_option(options, name == "max_read_size" ? "max-read-size" : "max-write-size",
                            value);
  } else {
    return set_mount_option(options, name, value);
  }
  return {};
}

// The most is what one request can be: a longer extent would not fit its buffer.
Result<std::uint32_t> extent_option(std::string_view name, const std::string& value) {
  constexpr std::uint64_t kMost = 1U << 20;
  const auto bytes = parse_size(value);
  if (!bytes || *bytes < kPageBytes || *bytes > kMost) {
    return bad_value(name, value, "a size from 4K to 1M, in bytes or with K or M");
  }
  return static_cast<std::uint32_t>(*bytes);
}

Result<BackingIo> backing_io_option(std::string_view name, const std::string& value) {
  if (value == "auto") {
    return BackingIo::automatic;
  }
  if (value == "mapped") {
    return BackingIo::mapped;
  }
  if (value == "buffered") {
    return BackingIo::buffered;
  }
  if (value == "direct") {
    return BackingIo::direct;
  }
  return bad_value(name, value, "auto, mapped, buffered or direct");
}

Result<std::uint32_t> readahead_option(std::string_view name, const std::string& value) {
  constexpr std::uint64_t kLeast = 1U << 20;
  constexpr std::uint64_t kMost = 64U << 20;
  const auto bytes = parse_size(value);
  if (!bytes || *bytes > kMost || (*bytes != 0 && *bytes < kLeast)) {
    return bad_value(name, value, "0 (off) or a size from 1M to 64M, in bytes or with K or M");
  }
  return static_cast<std::uint32_t>(*bytes);
}

}  // namespace

Status set_mount_option(MountOptions& options, std::string_view name, const std::string& value) {
  if (name == "key-slot") {
    CRYPTIMG_ASSIGN_OR_RETURN(const std::uint32_t slot, number_option(name, value, kMaxKeyslot));
    options.keyslot = static_cast<int>(slot);
  } else if (name == "workers") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.workers, number_option(name, value, kMaxWorkers));
  } else if (name == "max-read-size") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.max_read_size_bytes, chunk_option(name, value));
  } else if (name == "max-write-size") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.max_write_size_bytes, chunk_option(name, value));
  } else if (name == "coalesce") {
    if (value != "on" && value != "off") {
      return bad_value(name, value, "on or off");
    }
    options.coalesce = value == "on";
  } else if (name == "backing-io") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.backing_io, backing_io_option(name, value));
  } else if (name == "max-extent") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.max_extent_bytes, extent_option(name, value));
  } else if (name == "readahead") {
    CRYPTIMG_ASSIGN_OR_RETURN(options.readahead_bytes, readahead_option(name, value));
  } else if (name == "log-level") {
    if (std::find(kLogLevels.begin(), kLogLevels.end(), value) == kLogLevels.end()) {
      return bad_value(name, value, "trace, debug, info, warning, error, critical or off");
    }
    options.log_level = value;
  } else if (name == "offload-unit") {
    if (value != "extent" && value != "sector") {
      return bad_value(name, value, "extent or sector");
    }
    options.offload_by_sector = value == "sector";
  } else if (value.empty()) {
    return fail(Errc::invalid_argument, std::string(name) + " must not be empty");
  } else if (name == "key-file") {
    options.key_file = value;
  } else if (name == "header") {
    options.header = value;
  } else if (name == "require-cipher") {
    const auto spec = parse_cipher_name(value);
    if (!spec) {
      return bad_value(name, value, "a cipher that is served, such as aes-xts-plain64");
    }
    options.require_cipher = value;
  } else if (name == "uuid") {
    options.uuid = value;
  } else if (name == "engine") {
    options.engine = value;
  } else if (name == "log-file") {
    options.log_file = value;
  } else {
    return fail(Errc::invalid_argument,
                "unknown mount option \"" + std::string(name) + "\"; see cryptimg mount --help");
  }
  return {};
}

Status apply_mount_words(MountOptions& options, std::string_view text) {
  for (const Word& word : split_words(text)) {
    const std::string whole = word.name + (word.value ? "=" + *word.value : "");
    if (is_ignored(whole)) {
      continue;
    }
    if (whole == "remount") {
      return fail(Errc::invalid_argument,
                  "remounting is not offered: unmount, then mount with the new options");
    }
    if (word.value) {
      CRYPTIMG_RETURN_IF_ERROR(set_value(options, word.name, *word.value));
    } else if (!set_flag(options, word.name)) {
      return fail(Errc::invalid_argument,
                  "unknown mount option \"" + whole + "\"; see cryptimg mount --help");
    }
  }
  if (options.allow_other && options.allow_root) {
    return fail(Errc::invalid_argument, "allow_other and allow_root exclude each other");
  }
  return {};
}

}  // namespace cryptimg
