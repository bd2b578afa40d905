// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuse/control.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/mapped_file.h"
#include "core/thread_error.h"
#include "fuse/control_socket.h"

namespace cryptimg {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxConnections = 16;
constexpr std::chrono::seconds kPatience{5};

struct Connection {
  UniqueFd socket;
  std::string input;
  Clock::time_point deadline;
  Secret key;  // that is being received; else empty
  std::size_t key_got = 0;
  bool waits_for_end = false;
  bool done = false;
};

std::string error_line(const std::string& message) {
  return nlohmann::json{{"error", message}}.dump(-1, ' ', false,
                                                 nlohmann::json::error_handler_t::replace);
}

// A reply fits into the socket's buffer; a client that never read its last one has no second.
void answer(const Connection& connection, const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t sent =
      ::send(connection.socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// The command of a request line, or nothing where it is no JSON object with one.
std::optional<std::string> command_of(const std::string& line) {
  const auto request = nlohmann::json::parse(line, nullptr, false);
  if (!request.is_object()) {
    return std::nullopt;
  }
  const auto command = request.find("command");
  if (command == request.end() || !command->is_string()) {
    return std::nullopt;
  }
  return command->get<std::string>();
}

}  // namespace

struct ControlServer::Impl {
  UniqueFd listener;
  UniqueFd wakeup;
  uid_t owner = 0;
  Handler handler;
  std::vector<Connection> connections;  // the thread's alone
  std::string last_line;                // written before wakeup is, read by the thread after
  std::thread thread;

  void run() noexcept;
  void serve_until_woken();
  void accept_clients();
  void read_from(Connection& connection);
  void receive_key(Connection& connection);
  void handle_line(Connection& connection, const std::string& line);
  void say_goodbye();
  [[nodiscard]] int milliseconds_to_deadline() const;
};

void ControlServer::Impl::run() noexcept {
  block_signals();
  ::pthread_setname_np(::pthread_self(), "cryptimg-ctl");
  try {
    serve_until_woken();
    say_goodbye();
  } catch (const std::exception&) {
    // Out of memory: clients see the connection end. The mount goes on without its channel.
    connections.clear();
  }
  listener.reset();
}

void ControlServer::Impl::serve_until_woken() {
  for (;;) {
    std::vector<pollfd> waiting = {{wakeup.get(), POLLIN, 0}};
    const bool has_room = connections.size() < kMaxConnections;
    waiting.push_back({has_room ? listener.get() : -1, POLLIN, 0});
    for (const Connection& connection : connections) {
      waiting.push_back({connection.socket.get(), POLLIN, 0});
    }
    if (::poll(waiting.data(), waiting.size(), milliseconds_to_deadline()) < 0) {
      continue;
    }
    if (waiting[0].revents != 0) {
      return;
    }
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if (waiting[i + 2].revents != 0) {
        read_from(connections[i]);
      }
    }
    const auto now = Clock::now();
    std::erase_if(connections, [now](const Connection& connection) {
      return connection.done || (!connection.waits_for_end && now >= connection.deadline);
    });
    if (waiting[1].revents != 0) {
      accept_clients();
    }
  }
}

int ControlServer::Impl::milliseconds_to_deadline() const {
  std::optional<Clock::time_point> first;
  for (const Connection& connection : connections) {
    if (!connection.waits_for_end && (!first || connection.deadline < *first)) {
      first = connection.deadline;
    }
  }
  if (!first) {
    return -1;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

void ControlServer::Impl::accept_clients() {
  while (connections.size() < kMaxConnections) {
    UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client.valid()) {
      return;
    }
    const auto peer = control_peer(client.get());
    if (peer && (peer->uid == owner || peer->uid == 0)) {
      Connection connection;
      connection.socket = std::move(client);
      connection.deadline = Clock::now() + kPatience;
      connections.push_back(std::move(connection));
    }
  }
}

void ControlServer::Impl::receive_key(Connection& connection) {
  const MutableBytes rest = connection.key.mutable_bytes().subspan(connection.key_got);
  const ssize_t got = ::recv(connection.socket.get(), rest.data(), rest.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  connection.done = got <= 0;
  connection.key_got += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  if (connection.key_got == connection.key.size()) {
    answer(connection, handler.on_key(connection.key));
    connection.done = true;
  }
}

void ControlServer::Impl::read_from(Connection& connection) {
  if (!connection.key.empty()) {
    receive_key(connection);
    return;
  }
  std::array<char, 4096> piece;
  const ssize_t got = ::recv(connection.socket.get(), piece.data(), piece.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (got <= 0 || connection.waits_for_end) {
    connection.done = true;
    return;
  }
  connection.input.append(piece.data(), static_cast<std::size_t>(got));
  const std::size_t end = connection.input.find('\n');
  if (end != std::string::npos) {
    handle_line(connection, connection.input.substr(0, end));
  } else if (connection.input.size() >= kMaxControlLineBytes) {
    answer(connection, error_line("the request is too long"));
    connection.done = true;
  }
}

void ControlServer::Impl::handle_line(Connection& connection, const std::string& line) {
  const auto command = command_of(line);
  if (command == "wait-end") {
    connection.waits_for_end = true;
    return;
  }
  const Answer reply = command ? handler.on_line(line) : Answer{error_line("not a request")};
  if (reply.key_bytes != 0) {
    if (auto key = Secret::allocate(reply.key_bytes)) {
      connection.key = std::move(*key);
      connection.deadline = Clock::now() + kPatience;
    }
  }
  // Without memory for the key the client sees the connection end.
  if (reply.key_bytes == connection.key.size()) {
    answer(connection, reply.line);
  }
  connection.done = connection.key.empty();
}

void ControlServer::Impl::say_goodbye() {
  if (last_line.empty()) {
    return;
  }
  // A client sends its wait-end before it unmounts, so it is in some queue by now.
  accept_clients();
  for (Connection& connection : connections) {
    if (!connection.waits_for_end) {
      read_from(connection);
    }
    if (connection.waits_for_end) {
      answer(connection, last_line);
    }
  }
  connections.clear();
}

Result<std::unique_ptr<ControlServer>> ControlServer::start(std::uint32_t device_major,
                                                            std::uint32_t device_minor, uid_t owner,
                                                            Handler handler) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
    return fail_errno(errno, "cannot get random bytes");
  }
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(random));

  auto impl = std::make_unique<Impl>();
  impl->owner = owner;
  impl->handler = std::move(handler);
  impl->wakeup.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  impl->listener.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!impl->wakeup.valid() || !impl->listener.valid()) {
    return fail_errno(errno, "cannot make the control socket");
  }
  const ControlAddress address =
      control_address(control_prefix(device_major, device_minor) + hex.data());
  if (::bind(impl->listener.get(), address.get(), address.size()) != 0 ||
      ::listen(impl->listener.get(), static_cast<int>(kMaxConnections)) != 0) {
    return fail_errno(errno, "cannot bind the control socket");
  }
  try {
    impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return tl::unexpected(thread_error("cannot start the control thread", error));
  }
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

void ControlServer::finish(const std::string& line) {
  if (!impl_->thread.joinable()) {
    return;
  }
  impl_->last_line = line;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(impl_->wakeup.get(), &one, sizeof one);
  impl_->thread.join();
}

ControlServer::~ControlServer() {
  finish({});
}

}  // namespace cryptimg
