// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/daemon_status.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "fuse/exit_code.h"
#include "fuse/image_fs.h"
#include "fuse/sandbox.h"

namespace cryptimg {
namespace {

using Json = nlohmann::ordered_json;

std::string to_line(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string sentence(const Error& error) {
  return error.message.empty() ? std::strerror(error.os_errno != 0 ? error.os_errno : EIO)
                               : error.message;
}

const char* word(MountLock::State state) {
  switch (state) {
    case MountLock::State::failing:
      return "fail";
    case MountLock::State::holding:
      return "hold";
    case MountLock::State::open:
      break;
  }
  return "no";
}

std::string failure_line(const Error& error) {
  return to_line({{"error", sentence(error)}, {"exit_code", static_cast<int>(exit_code(error))}});
}

Json counters_of(const EncryptedImage& image, const CipherEngine* engine) {
  const ImageCounters counters = image.counters();
  const DriverCounters driver = engine == nullptr ? DriverCounters() : engine->driver_counters();
  return {{"reads", counters.reads},
          {"writes", counters.writes},
          {"read_bytes", counters.read_bytes},
          {"written_bytes", counters.written_bytes},
          {"flushes", counters.flushes},
          {"ahead_bytes", counters.ahead_bytes},
          {"filled_bytes", counters.filled_bytes},
          {"mapped_bytes", counters.mapped_bytes},
          {"fetched", counters.fetched},
          {"merged", counters.merged},
          {"extents", counters.extents},
          {"partial_sector_writes", counters.partial_sector_writes},
          {"chunks", counters.chunks},
          {"chunks_by_workers", counters.chunks_by_workers},
          {"contended_ranges", counters.contended_ranges},
          {"contended_sessions", counters.contended_sessions},
          {"read_errors", counters.read_errors},
          {"write_errors", counters.write_errors},
          {"flush_errors", counters.flush_errors},
          {"driver_operations", driver.operations},
          {"driver_bytes", driver.bytes},
          {"driver_software_bytes", driver.software_bytes},
          {"driver_fallbacks", driver.fallbacks},
          {"driver_quarantines", driver.quarantines}};
}

Json limits_of(const EncryptedImage& image) {
  return {{"max_read_size", image.max_read_size_bytes()},
          {"max_write_size", image.max_write_size_bytes()}};
}

// The value of `key`: absent is nothing, anything but a number of 32 bits sets `is_wrong`.
std::optional<std::uint32_t> size_in(const Json& request, const char* key, bool& is_wrong) {
  const auto found = request.find(key);
  if (found == request.end()) {
    return std::nullopt;
  }
  if (!found->is_number_unsigned() ||
      found->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max()) {
    is_wrong = true;
    return std::nullopt;
  }
  return found->get<std::uint32_t>();
}

Json set_limits(EncryptedImage& image, const Json& request) {
  bool is_wrong = false;
  const auto read_size = size_in(request, "max_read_size", is_wrong);
  const auto write_size = size_in(request, "max_write_size", is_wrong);
  if (is_wrong) {
    return {{"error", "a size must be a number of bytes"}};
  }
  if (read_size) {
    image.set_max_read_size(*read_size);
  }
  if (write_size) {
    image.set_max_write_size(*write_size);
  }
  return limits_of(image);
}

}  // namespace

ControlServer::Answer DaemonStatus::answer(const std::string& request) {
  const std::lock_guard lock(mutex_);
  if (image_ == nullptr) {
    return {to_line({{"error", "the mount is ending"}})};
  }
  const Json object = Json::parse(request, nullptr, false);
  const Json command = object.is_object() ? object.value("command", Json()) : Json();
  if (command == "set") {
    return {to_line(set_limits(*image_, object))};
  }
  if (command == "lock" && lock_ != nullptr) {
    const Status locked = lock_->lock(object.value("hold", Json()) == true);
    return {locked ? to_line({{"locked", word(lock_->state())}}) : failure_line(locked.error())};
  }
  if (command == "unlock" && lock_ != nullptr) {
    return {to_line({{"send_key", lock_->key_size_bytes()}}), lock_->key_size_bytes()};
  }
  return {command == "status" ? describe() : to_line({{"error", "unknown command"}})};
}

std::string DaemonStatus::answer_key(const Secret& key) {
  const std::lock_guard lock(mutex_);
  if (lock_ == nullptr) {
    return to_line({{"error", "the mount is ending"}});
  }
  const Status unlocked = lock_->unlock(key);
  return unlocked ? to_line({{"locked", word(lock_->state())}}) : failure_line(unlocked.error());
}

// REQUIRES: not detached, mutex_ held.
std::string DaemonStatus::describe() {
  const auto uptime = std::chrono::steady_clock::now() - start_;
  Json status = {
      {"container", facts_.container},
      {"mountpoint", facts_.mountpoint},
      {"pid", static_cast<std::uint64_t>(::getpid())},
      {"engine", facts_.engine},
      {"cipher", facts_.cipher},
      {"sector_size", image_->sector_size_bytes()},
      {"image_size", image_->size_bytes()},
      {"read_only", image_->read_only()},
      {"workers", image_->workers()},
      {"session_threads", facts_.session_threads},
  };
  status.update(limits_of(*image_));
  status["in_flight"] = image_->in_flight();
  status["uptime_seconds"] = std::chrono::duration_cast<std::chrono::seconds>(uptime).count();
  status["counters"] = counters_of(*image_, engine_.get());
  status["uuid"] = facts_.uuid;
  if (!facts_.header.empty()) {
    status["header"] = facts_.header;
  }
  status["locked"] = word(lock_ == nullptr ? MountLock::State::open : lock_->state());
  status["refused_calls"] = refused_calls();
  const Status flush = image_->flush_state();
  status["flush"] = flush ? "ok" : "failed";
  if (!flush) {
    status["flush_message"] = sentence(flush.error());
  }
  return to_line(status);
}

void DaemonStatus::detach() {
  const std::lock_guard lock(mutex_);
  image_ = nullptr;
  lock_ = nullptr;
  engine_.reset();
}

std::optional<ServedPlace> served_place(const std::string& answer) {
  const Json object = Json::parse(answer, nullptr, false);
  if (!object.is_object()) {
    return std::nullopt;
  }
  const Json container = object.value("container", Json());
  const Json mountpoint = object.value("mountpoint", Json());
  if (!container.is_string() || !mountpoint.is_string()) {
    return std::nullopt;
  }
  return ServedPlace{container.get<std::string>(), mountpoint.get<std::string>(),
                     object.value("read_only", Json()) == true};
}

std::string flush_line(const Status& status) {
  if (status) {
    return to_line({{"flush", "ok"}});
  }
  return to_line({{"flush", "failed"},
                  {"errno", to_errno(status.error())},
                  {"message", sentence(status.error())}});
}

}  // namespace cryptimg
