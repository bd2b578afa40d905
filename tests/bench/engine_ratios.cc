// SPDX-License-Identifier: GPL-3.0-or-later
//
// engine_ratios: engine vaes at both levels against engine openssl, on one core, by the time on
// it, in turns, so that whatever disturbs the machine disturbs both. Prints a table of medians; a
// line's ratio is the median of the rounds' ratios. With --check it exits 1 where a ratio is below
// what the project promises itself.
//   engine_ratios [--rounds N] [--check]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>

#include "tests/bench/engine_rate.h"

namespace cryptimg::bench {
namespace {

constexpr std::size_t kExtentBytes = 131072;  // what one chunk of a request is
constexpr std::chrono::milliseconds kTurn{20};
constexpr int kDefaultRounds = 15;
constexpr int kMaxRounds = 1000;

// One line of the table. `aim` is 0 where none is set beyond `at_least`.
struct Goal {
  const char* line = nullptr;
  CipherSpec spec;
  Direction direction = Direction::encrypt;
  double at_least = 0;
  double aim = 0;
};

constexpr CipherSpec xts(std::uint32_t sector) {
  return {CipherMode::aes_xts, IvMode::plain64, 64, sector};
}
constexpr CipherSpec cbc(std::uint32_t sector) {
  return {CipherMode::aes_cbc, IvMode::plain64, 32, sector};
}
constexpr CipherSpec essiv(std::uint32_t sector) {
  return {CipherMode::aes_cbc, IvMode::essiv_sha256, 32, sector};
}

constexpr std::array kGoals = {
    Goal{"vaes-avx512", xts(4096), Direction::encrypt, 1.9, 2.1},
    Goal{"vaes-avx512", xts(4096), Direction::decrypt, 1.9, 2.1},
    Goal{"vaes-avx512", xts(512), Direction::encrypt, 2.4, 3.3},
    Goal{"vaes-avx512", xts(512), Direction::decrypt, 2.4, 3.3},
    Goal{"vaes-avx512", cbc(512), Direction::encrypt, 10, 13},
    Goal{"vaes-avx512", cbc(4096), Direction::encrypt, 9, 11},
    Goal{"vaes-avx512", cbc(512), Direction::decrypt, 1.3, 0},
    Goal{"vaes-avx512", cbc(4096), Direction::decrypt, 1.3, 0},
    Goal{"vaes-avx512", essiv(512), Direction::encrypt, 1.3, 0},
    Goal{"vaes-avx512", essiv(4096), Direction::encrypt, 1.3, 0},
    Goal{"vaes-avx512", essiv(512), Direction::decrypt, 1.3, 0},
    Goal{"vaes-avx512", essiv(4096), Direction::decrypt, 1.3, 0},
    Goal{"vaes-avx2", xts(4096), Direction::encrypt, 1.2, 0},
    Goal{"vaes-avx2", xts(4096), Direction::decrypt, 1.2, 0},
    Goal{"vaes-avx2", xts(512), Direction::encrypt, 1.2, 0},
    Goal{"vaes-avx2", xts(512), Direction::decrypt, 1.2, 0},
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Keeps this process on the core where it is.
void stay_on_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(std::max(::sched_getcpu(), 0)), &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

enum class Verdict { reached, short_of, absent, failed };

Verdict judge(const Goal& goal, int rounds) {
  const std::string direction = goal.direction == Direction::encrypt ? "encrypt" : "decrypt";
  const auto fast = RateProbe::open({goal.line, goal.spec, goal.direction, kExtentBytes});
  const auto base = RateProbe::open({"openssl", goal.spec, goal.direction, kExtentBytes});
  std::printf("%-12s %-22s %-8s %5u ", goal.line, cipher_name(goal.spec).c_str(), direction.c_str(),
              goal.spec.sector_size_bytes);
  if (!fast || !base) {
    std::printf(" %s\n", (fast ? base : fast).error().message.c_str());
    return Verdict::absent;
  }
  std::vector<double> fast_rates;
  std::vector<double> base_rates;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const Result<double> ours = measure_rate(**fast, kTurn, RateClock::thread);
    const Result<double> theirs = measure_rate(**base, kTurn, RateClock::thread);
    if (!ours || !theirs) {
      std::printf(" an engine failed\n");
      return Verdict::failed;
    }
    fast_rates.push_back(*ours);
    base_rates.push_back(*theirs);
    ratios.push_back(*ours / *theirs);
  }
  const double ratio = median(ratios);
  const bool reached = ratio >= goal.at_least;
  constexpr double kGiga = 1e9;
  std::printf("%8.2f %8.2f %7.2f %8.1f", median(fast_rates) / kGiga, median(base_rates) / kGiga,
              ratio, goal.at_least);
  if (goal.aim > 0) {
    std::printf(" %5.1f", goal.aim);
  } else {
    std::printf("     -");
  }
  std::printf("  %s\n", !reached                            ? "SHORT"
                        : goal.aim > 0 && ratio >= goal.aim ? "aim reached"
                                                            : "reached");
  return reached ? Verdict::reached : Verdict::short_of;
}

int run(int rounds, bool check) {
  stay_on_one_core();
  std::printf("GB/s, medians of %d rounds, extents of %zu bytes in place, one core\n", rounds,
              kExtentBytes);
  std::printf("%-12s %-22s %-8s %5s %8s %8s %7s %8s %5s\n", "engine", "cipher", "", "sector",
              "engine", "openssl", "ratio", "at least", "aim");
  int problems = 0;
  for (const Goal& goal : kGoals) {
    const Verdict verdict = judge(goal, rounds);
    problems += verdict == Verdict::short_of || verdict == Verdict::failed ? 1 : 0;
  }
  return check && problems != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace cryptimg::bench

int main(int argc, char** argv) {
  int rounds = cryptimg::bench::kDefaultRounds;
  bool check = false;
  for (int index = 1; index < argc; ++index) {
    const std::string_view word = argv[index];
    if (word == "--check") {
      check = true;
    } else if (word == "--rounds" && index + 1 < argc) {
      rounds = static_cast<int>(std::strtol(argv[++index], nullptr, 10));
    } else {
      rounds = 0;
      break;
    }
  }
  if (rounds < 1 || rounds > cryptimg::bench::kMaxRounds) {
    std::fputs("usage: engine_ratios [--rounds N] [--check]\n", stderr);
    return EXIT_FAILURE;
  }
  return cryptimg::bench::run(rounds, check);
}
