// SPDX-License-Identifier: GPL-3.0-or-later
//
// The control channel between a mount's daemon and the commands: a Unix stream socket in the
// abstract namespace, named "cryptimg-<major>-<minor>-<random>" after the mount's device number.
// It is no file: gone with the daemon. Clients find it in /proc/net/unix by the prefix, and trust
// a socket only if its peer is the mount's owner or root; the server answers its owner and root
// only. One request a connection: a JSON object {"command": ...} in one line, one line back.
//   {"command":"status"}        -> the daemon's part of `status --json`: container, mountpoint,
//                                  pid, engine, cipher, sector_size, image_size, read_only,
//                                  workers, session_threads, max_read_size, max_write_size,
//                                  in_flight, uptime_seconds, refused_calls, counters (an object,
//                                  every field of ImageCounters), flush ("ok" or "failed", then
//                                  flush_message)
//   {"command":"wait-end"}      -> answered when the mount has ended: {"flush":"ok"} or
//                                  {"flush":"failed","errno":5,"message":"..."}
//   {"command":"set","max_read_size":N,"max_write_size":N} -> the values in force; either may be
//                                  absent
//   {"command":"lock","hold":false} -> {"locked":"fail"}, or "hold": see mount_lock.h
//   {"command":"unlock"}        -> {"send_key":N}: the client then sends the N bytes of the volume
//                                  key, which go straight into guarded memory, and is answered
//                                  {"locked":"no"}
// What a lock or unlock fails with is {"error":"...","exit_code":N}. Lines are at most 64 KiB.
// Anything malformed is answered with {"error":"..."}.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

#include "core/result.h"
#include "core/secret.h"
#include "core/unique_fd.h"

namespace cryptimg {

// Server side: one thread of its own, so that it answers while I/O is stalled. At most 16
// connections; a client that does not speak within 5 seconds is dropped.
class ControlServer {
 public:
  struct Answer {
    std::string line;
    std::size_t key_bytes = 0;  // that the client sends next, or none
  };
  // Both are called on the server's thread.
  struct Handler {
    // Answers one request line; must not block on I/O.
    std::function<Answer(const std::string& request)> on_line;
    // Answers the key that an Answer asked for.
    std::function<std::string(const Secret& key)> on_key;
  };

  // Binds the socket and starts the thread (signals blocked in it by block_signals()).
  static Result<std::unique_ptr<ControlServer>> start(std::uint32_t device_major,
                                                      std::uint32_t device_minor, uid_t owner,
                                                      Handler handler);
  // Sends `line` to every client in wait-end, those included that have asked but were not yet
  // heard, then stops the thread. Call once.
  void finish(const std::string& line);
  // Stops the thread, if finish() did not, telling waiting clients nothing.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  struct Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Client side: a connection to the daemon of one mount.
class ControlClient {
 public:
  // not_found where no daemon answers (a dead mount); permission where it is not ours to ask.
  static Result<ControlClient> connect(std::uint32_t device_major, std::uint32_t device_minor,
                                       uid_t owner);
  // Sends a request line and waits for the answer, at most `timeout_ms` (-1: for ever).
  Result<std::string> ask(const std::string& request, int timeout_ms);
  Status send(const std::string& request);
  // Sends a key, which is not copied on the way to the kernel.
  Status send_key(const Secret& key);
  Result<std::string> receive(int timeout_ms);
  // The daemon's process, from the socket's peer credentials.
  [[nodiscard]] pid_t daemon_pid() const { return daemon_pid_; }

 private:
  Status send_all(Bytes bytes);

  UniqueFd socket_;
  pid_t daemon_pid_ = -1;
};

}  // namespace cryptimg
