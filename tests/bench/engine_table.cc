// SPDX-License-Identifier: GPL-3.0-or-later
//
// How fast engines are by the size of what they are given at once, and how much CPU that takes of
// the whole machine, which must be quiet: what the kernel and helpers do for an engine counts too.
// For machines with AES hardware; see guest_tables.sh.
//   engine_table ENGINE...
// prints lines: engine ENGINE CIPHER SECTOR DIRECTION THREADS BYTES RATE LOAD
// in bytes, and seconds of CPU, a second. "afalg-by-sector" is afalg with an operation a sector.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "core/engine_curve.h"
#include "engines/engines.h"

namespace cryptimg::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTurn{150};

// Seconds that all CPUs together have been busy: user, nice, system, and serving interrupts.
double busy_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double wait = 0;
  double interrupts = 0;
  double soft = 0;
  file >> word >> user >> nice >> system >> idle >> wait >> interrupts >> soft;
  return (user + nice + system + interrupts + soft) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

struct Case {
  std::string engine;
  CipherSpec spec;
  Direction direction;
  unsigned threads;
  std::size_t bytes;
};

Status measure(const Case& what, const CipherEngine& engine) {
  CRYPTIMG_ASSIGN_OR_RETURN(const Secret key, curve_key(what.spec));
  std::vector<std::unique_ptr<CipherSession>> sessions;
  for (unsigned thread = 0; thread < what.threads; ++thread) {
    CRYPTIMG_ASSIGN_OR_RETURN(auto session, engine.new_session(what.spec, key));
    sessions.push_back(std::move(session));
  }
  std::atomic<std::uint64_t> transforms{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  const double busy = busy_seconds();
  const Clock::time_point begin = Clock::now();
  for (auto& session : sessions) {
    threads.emplace_back([&, own = session.get()] {
      std::vector<std::byte> extent(what.bytes, std::byte{0x5A});
      while (!failed && Clock::now() - begin < kTurn) {
        failed = failed || !own->transform(what.direction, 0, extent, extent);
        ++transforms;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (failed) {
    return fail(Errc::unavailable, what.engine + " failed");
  }
  std::printf("engine %s %s %u %s %u %zu %.0f %.3f\n", what.engine.c_str(),
              cipher_name(what.spec).c_str(), what.spec.sector_size_bytes,
              what.direction == Direction::decrypt ? "read" : "write", what.threads, what.bytes,
              static_cast<double>(transforms) * static_cast<double>(what.bytes) / seconds,
              (busy_seconds() - busy) / seconds);
  std::fflush(stdout);
  return {};
}

Status measure_all(const std::string& name, const CipherSpec& spec) {
  const std::string by_sector = "afalg-by-sector";
  EngineOptions options;
  options.offload_by_sector = name == by_sector;
  CRYPTIMG_ASSIGN_OR_RETURN(const auto engine,
                            make_engine(options.offload_by_sector ? "afalg" : name, spec, options));
  for (const Direction direction : {Direction::decrypt, Direction::encrypt}) {
    for (const unsigned threads : {1U, 4U}) {
      for (std::size_t bytes = 512; bytes <= 262144; bytes *= 2) {
        if (bytes < spec.sector_size_bytes || (threads > 1 && bytes < 4096)) {
          continue;
        }
        CRYPTIMG_RETURN_IF_ERROR(measure({name, spec, direction, threads, bytes}, *engine));
      }
    }
  }
  return {};
}

int run(const std::vector<std::string>& names) {
  const std::vector<CipherSpec> specs = {
      {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 512},
      {CipherMode::aes_xts, IvMode::plain64, 64, 4096},
  };
  for (const std::string& name : names) {
    for (const CipherSpec& spec : specs) {
      if (const Status status = measure_all(name, spec); !status) {
        std::fprintf(stderr, "engine_table: %s\n", status.error().message.c_str());
        return EXIT_FAILURE;
      }
    }
  }
  return names.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace cryptimg::bench

int main(int argc, char** argv) {
  return cryptimg::bench::run({argv + 1, argv + argc});
}
