// SPDX-License-Identifier: GPL-3.0-or-later
//
// Control-socket messages: requests as the daemon takes them, through a real socket and without,
// and answers as commands take them. Input: what is sent.
#include <memory>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "core/encrypted_image.h"
#include "fuse/control.h"
#include "fuse/daemon_status.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/fake_engine.h"
#include "tests/support/memory_device.h"

namespace cryptimg::fuzz {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMajor = 4095;  // no device of a mount
constexpr int kTimeoutMs = 5000;

// A daemon's part that answers.
class Daemon {
 public:
  Daemon() {
    ImageOptions options;
    options.size_bytes = 65536;
    options.workers = 0;
    auto image =
        EncryptedImage::create(std::make_unique<test::MemoryDevice>(options.size_bytes),
                               test::FakeEngine(control_), CipherSpec(), Secret(), options, 1);
    FUZZ_CHECK(image);
    image_ = std::move(*image);
    status_ = std::make_unique<DaemonStatus>(
        *image_, DaemonStatus::Facts{"/c\n.img", "/mnt", "fake", "none", 1, "uuid", ""});
    auto server =
        ControlServer::start(kMajor, minor(), ::geteuid(),
                             {[this](const std::string& line) { return status_->answer(line); },
                              [this](const Secret& key) { return status_->answer_key(key); }});
    FUZZ_CHECK(server);
    server_ = std::move(*server);
  }

  static std::uint32_t minor() { return static_cast<std::uint32_t>(::getpid()); }
  std::string answer(const std::string& line) { return status_->answer(line).line; }
  [[nodiscard]] const EncryptedImage& image() const { return *image_; }

 private:
  test::FakeControl control_;
  std::unique_ptr<EncryptedImage> image_;
  std::unique_ptr<DaemonStatus> status_;
  std::unique_ptr<ControlServer> server_;
};

Json object_of(const std::string& line) {
  FUZZ_CHECK(line.find('\n') == std::string::npos);
  const Json answer = Json::parse(line, nullptr, false);
  FUZZ_CHECK(answer.is_object());
  return answer;
}

void check_answer(Daemon& daemon, const std::string& line, Reach& reach) {
  const Json answer = object_of(daemon.answer(line));
  reach.at(answer.contains("error") ? "error" : answer.contains("counters") ? "status" : "set");
  const EncryptedImage& image = daemon.image();
  for (const std::uint32_t limit : {image.max_read_size_bytes(), image.max_write_size_bytes()}) {
    FUZZ_CHECK(limit >= image.sector_size_bytes() && limit % image.sector_size_bytes() == 0);
  }
}

void check_server(const std::string& text, Reach& reach) {
  auto client = ControlClient::connect(kMajor, Daemon::minor(), ::geteuid());
  FUZZ_CHECK(client);
  const std::string line = text.substr(0, text.find('\n'));
  // It may have hung up before all of it was sent.
  static_cast<void>(client->send(text));
  const Json request = Json::parse(line, nullptr, false);
  if (request.is_object() && request.contains("command") && request["command"] == "wait-end") {
    reach.at("wait-end");
    return;
  }
  const auto answer = client->receive(kTimeoutMs);
  // Where more than a line was sent the rest may be lost with the connection.
  FUZZ_CHECK(answer || text.size() > 4096);
  if (answer) {
    object_of(*answer);
    reach.at("answered");
  }
}

}  // namespace
}  // namespace cryptimg::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cryptimg::fuzz;
  static Reach reach{"error", "status", "set", "wait-end", "answered", "place", "no place"};
  static Daemon daemon;
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_answer(daemon, text, reach);
  check_server(text, reach);
  reach.at(cryptimg::served_place(text) ? "place" : "no place");
  return 0;
}
