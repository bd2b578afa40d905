// SPDX-License-Identifier: GPL-3.0-or-later
//
// How fast each engine ciphers: engine x cipher x direction x sector size x extent size, with
// memcpy and the bare cipher beside them. Google Benchmark's options apply, such as
// --benchmark_filter='vaes.*xts' and --benchmark_format=json.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tests/bench/engine_rate.h"

namespace cryptimg::bench {
namespace {

const std::vector<CipherSpec>& ciphers() {
  static const std::vector<CipherSpec> kSpecs = {
      {CipherMode::aes_xts, IvMode::plain64, 64, 512},
      {CipherMode::aes_xts, IvMode::plain64, 32, 512},
      {CipherMode::aes_cbc, IvMode::plain64, 32, 512},
      {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, 512},
      {CipherMode::aes_cbc, IvMode::essiv_sha256, 16, 512},
  };
  return kSpecs;
}

std::string title(const RateCase& what) {
  if (what.line == "memcpy") {
    return what.line + "/" + std::to_string(what.extent_bytes);
  }
  std::string name = what.line + "/" + cipher_name(what.spec) + "/" +
                     std::to_string(what.spec.key_size_bytes * 8) + "/" +
                     (what.direction == Direction::encrypt ? "encrypt" : "decrypt");
  if (what.line != "raw-cipher") {
    name += "/" + std::to_string(what.spec.sector_size_bytes);
  }
  return name + "/" + std::to_string(what.extent_bytes);
}

void run(benchmark::State& state, const RateCase& what) {
  const Result<std::unique_ptr<RateProbe>> probe = RateProbe::open(what);
  if (!probe) {
    state.SkipWithError(probe.error().message.c_str());
    return;
  }
  while (state.KeepRunning()) {
    if (!(*probe)->step()) {
      state.SkipWithError("the engine failed");
      return;
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(what.extent_bytes));
}

void add(const RateCase& what) {
  benchmark::RegisterBenchmark(title(what).c_str(),
                               [what](benchmark::State& state) { run(state, what); });
}

void add_line(const std::string& line, const CipherSpec& cipher, std::size_t extent_bytes) {
  for (const Direction direction : {Direction::encrypt, Direction::decrypt}) {
    for (const std::uint32_t sector : {512U, 4096U}) {
      CipherSpec spec = cipher;
      spec.sector_size_bytes = sector;
      const bool has_sectors = line != "raw-cipher";
      if (sector <= extent_bytes && (has_sectors || sector == 512)) {
        add({line, spec, direction, extent_bytes});
      }
    }
  }
}

void add_all() {
  for (const std::size_t extent_bytes : {512U, 4096U, 16384U, 65536U, 131072U, 1048576U}) {
    add({"memcpy", {}, Direction::decrypt, extent_bytes});
    for (const CipherSpec& cipher : ciphers()) {
      for (const std::string& line : rate_lines()) {
        const bool is_essiv = cipher.iv == IvMode::essiv_sha256;
        if (line != "memcpy" &&
            !(line == "raw-cipher" && is_essiv && cipher.key_size_bytes == 32)) {
          add_line(line, cipher, extent_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cryptimg::bench

int main(int argc, char** argv) {
  cryptimg::bench::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
