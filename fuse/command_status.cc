// SPDX-License-Identifier: GPL-3.0-or-later
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/text.h"
#include "fuse/commands.h"
#include "fuse/control.h"
#include "fuse/detached.h"
#include "fuse/mount_table.h"
#include "fuse/sizes.h"

namespace cryptimg {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kAnswerTimeoutMs = 2000;

Json parsed_answer(const std::string& answer) {
  return Json::parse(answer, nullptr, false);
}

// What the daemon says of itself; nothing where it cannot be asked, `state` then saying why.
std::optional<Json> ask_daemon(const MountEntry& mount, std::string& state) {
  auto client = ControlClient::connect(mount.device_major, mount.device_minor, mount.owner);
  if (!client) {
    state = client.error().code == Errc::not_found && is_dead(mount) ? "dead" : "unknown";
    return std::nullopt;
  }
  state = "unknown";
  const auto answer = client->ask(R"({"command":"status"})", kAnswerTimeoutMs);
  if (!answer) {
    return std::nullopt;
  }
  Json object = parsed_answer(*answer);
  if (!object.is_object()) {
    return std::nullopt;
  }
  if (object.contains("error")) {
    state = "ending";
    return std::nullopt;
  }
  state = object.value("locked", Json("no")) == "no" ? "serving" : "locked";
  return object;
}

Json describe(const MountEntry& mount, const std::string& state,
              const std::optional<Json>& daemon) {
  Json object = {
      {"mountpoint", valid_text(mount.mountpoint)},
      {"container", valid_text(mount.container)},
      {"state", state},
      {"read_only", mount.read_only},
      {"owner", mount.owner},
      {"device", std::to_string(mount.device_major) + ":" + std::to_string(mount.device_minor)}};
  if (daemon) {
    // What the mount table says stands: the daemon's own words for it are not escaped.
    for (const auto& [key, value] : daemon->items()) {
      if (!object.contains(key)) {
        object[key] = value;
      }
    }
  }
  return object;
}

Json describe(const MountEntry& mount) {
  std::string state;
  const std::optional<Json> daemon = ask_daemon(mount, state);
  return describe(mount, state, daemon);
}

// All of them that `target`, if any, names; the mounts first.
Result<Json> describe_all(const std::optional<std::string>& target) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::vector<MountEntry> all, list_mounts());
  Json array = Json::array();
  for (const MountEntry& mount : target ? find_mounts(all, *target) : all) {
    array.push_back(describe(mount));
  }
  if (target && !array.empty()) {
    return array;
  }
  for (const DetachedDaemon& daemon : find_detached(all)) {
    if (!target || !mounts_of_container({daemon.mount}, *target).empty()) {
      array.push_back(describe(daemon.mount, "detached", parsed_answer(daemon.answer)));
    }
  }
  if (target && array.empty()) {
    return fail(Errc::not_found, *target + " is not mounted by cryptimg");
  }
  return array;
}

std::uint64_t number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string word(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>())
                                                     : std::string("-");
}

void print_text(const Json& mount) {
  std::printf("%s on %s: %s, %s\n", word(mount, "container").c_str(),
              word(mount, "mountpoint").c_str(), word(mount, "state").c_str(),
              mount.value("read_only", false) ? "read-only" : "read-write");
  if (!mount.contains("pid")) {
    return;
  }
  std::printf("  %s, %s, engine %s, daemon %" PRIu64 "\n",
              human_size(number(mount, "image_size")).c_str(), word(mount, "cipher").c_str(),
              word(mount, "engine").c_str(), number(mount, "pid"));
  const Json counters = mount.value("counters", Json::object());
  std::printf("  %" PRIu64 " reads (%s), %" PRIu64 " writes (%s), %" PRIu64 " flushes, %" PRIu64
              " in flight\n",
              number(counters, "reads"), human_size(number(counters, "read_bytes")).c_str(),
              number(counters, "writes"), human_size(number(counters, "written_bytes")).c_str(),
              number(counters, "flushes"), number(mount, "in_flight"));
  const std::uint64_t errors = number(counters, "read_errors") + number(counters, "write_errors") +
                               number(counters, "flush_errors");
  if (errors != 0 || word(mount, "flush") == "failed") {
    std::printf("  %" PRIu64 " errors%s\n", errors,
                word(mount, "flush") == "failed" ? "; a flush has failed: data may be lost" : "");
  }
}

}  // namespace

ExitCode run_status(const std::optional<std::string>& target, bool json) {
  const auto array = describe_all(target);
  if (!array) {
    return report(array.error(), json);
  }
  if (json) {
    std::printf(
        "%s\n",
        Json{{"mounts", *array}}.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
    return ExitCode::ok;
  }
  for (const Json& mount : *array) {
    print_text(mount);
  }
  if (array->empty()) {
    std::printf("Nothing is mounted\n");
  }
  return ExitCode::ok;
}

}  // namespace cryptimg
