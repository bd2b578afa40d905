// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/mount_of_target.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "fuse/control.h"
#include "fuse/exit_code.h"

namespace cryptimg {
namespace {

using Json = nlohmann::json;

// Longer than the daemon waits for anything.
constexpr int kTimeoutMs = 30'000;

Errc errc_of(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::parameters:
      return Errc::invalid_argument;
    case ExitCode::passphrase:
      return Errc::wrong_key;
    case ExitCode::memory:
      return Errc::out_of_memory;
    case ExitCode::exists:
      return Errc::busy;
    default:
      return Errc::io;
  }
}

Result<Json> checked(const std::string& line) {
  Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) {
    return fail(Errc::corrupt, "the daemon's answer makes no sense");
  }
  if (const Json error = object.value("error", Json()); error.is_string()) {
    const Json code = object.value("exit_code", Json());
    return fail(errc_of(code.is_number_integer() ? code.get<int>() : 0), error.get<std::string>());
  }
  return object;
}

// With `key` the daemon is sent it when it asks for it.
Result<Json> ask(const MountEntry& mount, const std::string& request, const Secret* key) {
  CRYPTIMG_ASSIGN_OR_RETURN(
      ControlClient client,
      ControlClient::connect(mount.device_major, mount.device_minor, mount.owner));
  CRYPTIMG_ASSIGN_OR_RETURN(const std::string line, client.ask(request, kTimeoutMs));
  CRYPTIMG_ASSIGN_OR_RETURN(Json answer, checked(line));
  if (key == nullptr) {
    return answer;
  }
  if (answer.value("send_key", Json()) != key->size()) {
    return fail(Errc::corrupt, "the container's key is not of the size of the mounted one's");
  }
  CRYPTIMG_RETURN_IF_ERROR(client.send_key(*key));
  CRYPTIMG_ASSIGN_OR_RETURN(const std::string last_line, client.receive(kTimeoutMs));
  return checked(last_line);
}

}  // namespace

Result<MountEntry> mount_of_target(const std::string& target) {
  CRYPTIMG_ASSIGN_OR_RETURN(const std::vector<MountEntry> all, list_mounts());
  const std::vector<MountEntry> found = find_mounts(all, target);
  if (found.empty()) {
    return fail(Errc::not_found, target + " is not mounted by cryptimg");
  }
  for (const MountEntry& other : found) {
    if (other.device_major != found.front().device_major ||
        other.device_minor != found.front().device_minor) {
      return fail(Errc::busy, target + " names more than one mount: name the mount point");
    }
  }
  return found.back();
}

Result<MountState> ask_state(const MountEntry& mount) {
  CRYPTIMG_ASSIGN_OR_RETURN(const Json answer, ask(mount, R"({"command":"status"})", nullptr));
  const auto word = [&answer](const char* key) {
    const auto found = answer.find(key);
    return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  MountState state{word("locked"), word("uuid"), word("cipher"), word("header"), 0};
  const Json size = answer.value("image_size", Json());
  state.image_size_bytes = size.is_number_unsigned() ? size.get<std::uint64_t>() : 0;
  return state;
}

Status ask_to_lock(const MountEntry& mount, bool holds) {
  const Json request = {{"command", "lock"}, {"hold", holds}};
  CRYPTIMG_RETURN_IF_ERROR(ask(mount, request.dump(), nullptr));
  return {};
}

Status hand_over_key(const MountEntry& mount, const Secret& key) {
  CRYPTIMG_RETURN_IF_ERROR(ask(mount, R"({"command":"unlock"})", &key));
  return {};
}

}  // namespace cryptimg
