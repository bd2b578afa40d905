// SPDX-License-Identifier: GPL-3.0-or-later
#include "engines/afalg_drivers.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "engines/block_algebra.h"

namespace cryptimg {
namespace {

constexpr std::array kModes = {AlgMode::ecb, AlgMode::cbc, AlgMode::xts};

// "ecb", "cbc" or "xts".
std::string_view mode_word(AlgMode mode) {
  return alg_name(mode).substr(0, 3);
}

// Found anywhere in a name, they say that the CPU does the work.
constexpr std::array<std::string_view, 13> kSoftwareParts = {
    "(",    "aesni",   "vaes", "generic", "fixed-time", "cryptd", "pcrypt",
    "simd", "padlock", "s390", "p8_aes",  "zvk",        "neon",
};
// What is left of a name without "MODE-aes-". Only whole: "cbc-aes-ce" are the ARM instructions,
// "cbc-aes-sun8i-ce" is Allwinner's crypto engine.
constexpr std::array<std::string_view, 10> kSoftwareRests = {
    "ce", "arm", "asm", "i586", "x86_64", "lib", "aesbs", "ppc-spe", "sparc64", "octeon",
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// One block of the file, as far as it matters.
struct Entry {
  std::string_view name, driver, type, selftest, internal, async;
  int priority = 0;
};

void take_line(std::string_view line, Entry& entry) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return;
  }
  const std::string_view key = trimmed(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (key == "name") {
    entry.name = value;
  } else if (key == "driver") {
    entry.driver = value;
  } else if (key == "type") {
    entry.type = value;
  } else if (key == "selftest") {
    entry.selftest = value;
  } else if (key == "internal") {
    entry.internal = value;
  } else if (key == "async") {
    entry.async = value;
  } else if (key == "priority") {
    std::from_chars(value.data(), value.data() + value.size(), entry.priority);
  }
}

void add_entry(const Entry& entry, std::vector<AlgDriver>& drivers) {
  const bool is_cipher = entry.type == "skcipher" || entry.type == "ablkcipher" ||
                         entry.type == "lskcipher" || entry.type == "blkcipher";
  if (!is_cipher || entry.driver.empty() || entry.selftest != "passed" || entry.internal == "yes") {
    return;
  }
  const auto* const mode = std::find_if(kModes.begin(), kModes.end(), [&entry](AlgMode known) {
    return alg_name(known) == entry.name;
  });
  const bool is_new =
      std::none_of(drivers.begin(), drivers.end(),
                   [&entry](const AlgDriver& known) { return known.name == entry.driver; });
  if (mode != kModes.end() && is_new) {
    drivers.push_back({std::string(entry.driver), *mode, entry.priority,
                       entry.async == "yes" && is_hardware_name(entry.driver)});
  }
}

// How much can be made of a driver: the directions of `mode` it serves, those in one operation per
// extent counting more; 0 where it is of no use.
int usefulness(AlgMode driver, CipherMode mode) {
  int points = 0;
  for (const Direction direction : {Direction::decrypt, Direction::encrypt}) {
    const OffloadForm form = offload_form(mode, driver, direction);
    if (form != OffloadForm::none) {
      points += form == OffloadForm::cbc_sectors ? 2 : 3;
    }
  }
  return points;
}

}  // namespace

std::string_view alg_name(AlgMode mode) {
  switch (mode) {
    case AlgMode::ecb:
      return "ecb(aes)";
    case AlgMode::cbc:
      return "cbc(aes)";
    case AlgMode::xts:
      break;
  }
  return "xts(aes)";
}

std::vector<AlgDriver> parse_proc_crypto(std::string_view proc_crypto) {
  std::vector<AlgDriver> drivers;
  Entry entry;
  while (!proc_crypto.empty()) {
    const std::size_t end = std::min(proc_crypto.find('\n'), proc_crypto.size());
    const std::string_view line = trimmed(proc_crypto.substr(0, end));
    proc_crypto.remove_prefix(std::min(end + 1, proc_crypto.size()));
    if (line.empty()) {
      add_entry(entry, drivers);
      entry = {};
    } else {
      take_line(line, entry);
    }
  }
  add_entry(entry, drivers);
  return drivers;
}

bool is_hardware_name(std::string_view driver) {
  const auto is_in_name = [driver](std::string_view part) {
    return driver.find(part) != std::string_view::npos;
  };
  if (driver.empty() || std::any_of(kSoftwareParts.begin(), kSoftwareParts.end(), is_in_name)) {
    return false;
  }
  for (const AlgMode mode : kModes) {
    const std::string prefix = std::string(mode_word(mode)) + "-aes-";
    if (driver.substr(0, prefix.size()) == prefix) {
      const std::string_view rest = driver.substr(prefix.size());
      return std::find(kSoftwareRests.begin(), kSoftwareRests.end(), rest) == kSoftwareRests.end();
    }
  }
  return true;
}

std::optional<AlgDriver> find_driver(std::string_view proc_crypto, std::string_view name) {
  for (AlgDriver& driver : parse_proc_crypto(proc_crypto)) {
    if (driver.name == name) {
      return std::move(driver);
    }
  }
  // The outermost mode is the one that counts: "xts(ecb(aes-generic))".
  std::optional<AlgDriver> found;
  std::size_t found_at = std::string_view::npos;
  for (const AlgMode mode : kModes) {
    const std::size_t at = name.find(std::string(mode_word(mode)) + "(");
    if (at < found_at) {
      found_at = at;
      found = AlgDriver{std::string(name), mode, 0, false};
    }
  }
  return found;
}

std::optional<AlgDriver> best_hardware(const std::vector<AlgDriver>& drivers, CipherMode mode) {
  const AlgDriver* best = nullptr;
  for (const AlgDriver& driver : drivers) {
    const int points = driver.is_hardware ? usefulness(driver.mode, mode) : 0;
    if (points == 0) {
      continue;
    }
    const int best_points = best == nullptr ? 0 : usefulness(best->mode, mode);
    if (points > best_points || (points == best_points && driver.priority > best->priority)) {
      best = &driver;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace cryptimg
