// SPDX-License-Identifier: GPL-3.0-or-later
//
// scaling: the data path without FUSE and without a disk: requests against a device that does
// nothing, by 1 to 32 threads, and how often they met at a lock. Then a cipher-bound stream (CBC
// encryption by OpenSSL) with and without a worker. On N cores the first must not become slower
// beyond N threads. Ratios within one run; each figure is a median of turns that take turns.
//   scaling [--quick] [--check]
// --check: exit 1 where 32 threads do less than 0.8 of the best, or the worker brings less than 1.8
// times (two cores needed).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "core/encrypted_image.h"
#include "engines/engines.h"

namespace cryptimg::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kImageBytes = std::uint64_t{1} << 34;
constexpr std::array kThreadCounts = {1U, 2U, 4U, 8U, 16U, 32U};
constexpr double kMillion = 1e6;
constexpr double kThousand = 1e3;

// Every transfer is done at once and changes nothing.
class NullDevice final : public BlockDevice {
 public:
  Status read(std::uint64_t /*offset*/, MutableBytes /*target*/) noexcept override { return {}; }
  Status write(std::uint64_t /*offset*/, Bytes /*source*/) noexcept override { return {}; }
  Status flush() noexcept override { return {}; }
  Status allocate(std::uint64_t /*offset*/, std::uint64_t /*length*/) noexcept override {
    return {};
  }
  timespec modified_time() noexcept override { return {}; }
};

struct Load {
  IoRequest::Kind kind = IoRequest::Kind::read;
  std::size_t request_bytes = 4096;
  unsigned threads = 1;
};

struct Figure {
  double requests_per_second = 0;
  double contended_ranges = 0;    // of a thousand requests
  double contended_sessions = 0;  // of a thousand requests
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<std::unique_ptr<EncryptedImage>> make_image(std::string_view engine_name,
                                                   const CipherSpec& spec, unsigned workers,
                                                   unsigned callers) {
  CRYPTIMG_ASSIGN_OR_RETURN(const auto engine, make_engine(engine_name, spec));
  CRYPTIMG_ASSIGN_OR_RETURN(Secret key, Secret::allocate(spec.key_size_bytes));
  std::uint8_t next = 1;  // the halves of an XTS key must differ
  for (std::byte& byte : key.mutable_bytes()) {
    byte = std::byte{next++};
  }
  ImageOptions options;
  options.size_bytes = kImageBytes;
  options.workers = workers;
  return EncryptedImage::create(std::make_unique<NullDevice>(), *engine, spec, key, options,
                                callers);
}

// One thread's share: requests at places of its own, until told to stop. Returns how many.
std::uint64_t serve(EncryptedImage& image, const Load& load, unsigned thread,
                    const std::atomic<bool>& stop) {
  std::vector<std::byte> buffer(load.request_bytes);
  std::uint64_t place = thread * 7919U;
  std::uint64_t done = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    std::atomic<bool> completed{false};
    IoRequest request;
    request.kind = load.kind;
    place = place * 6364136223846793005U + 1442695040888963407U;
    request.offset_bytes = (place >> 20) % (kImageBytes / load.request_bytes) * load.request_bytes;
    request.length_bytes = load.request_bytes;
    request.buffer = buffer;
    request.context = &completed;
    request.completion = [](IoRequest& finished, Status /*status*/) noexcept {
      auto* flag = static_cast<std::atomic<bool>*>(finished.context);
      flag->store(true);
      flag->notify_one();
    };
    image.submit(request);
    completed.wait(false);
    ++done;
  }
  return done;
}

Figure measure(EncryptedImage& image, const Load& load, std::chrono::milliseconds turn) {
  const ImageCounters before = image.counters();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> total{0};
  std::vector<std::thread> threads;
  const auto begin = Clock::now();
  for (unsigned thread = 0; thread < load.threads; ++thread) {
    threads.emplace_back([&, thread] { total += serve(image, load, thread, stop); });
  }
  std::this_thread::sleep_for(turn);
  stop.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const ImageCounters after = image.counters();
  const double done = std::max(static_cast<double>(total.load()), 1.0);
  const auto of_thousand = [done](std::uint64_t from, std::uint64_t to) {
    return static_cast<double>(to - from) * kThousand / done;
  };
  return {done / seconds, of_thousand(before.contended_ranges, after.contended_ranges),
          of_thousand(before.contended_sessions, after.contended_sessions)};
}

Result<bool> threads_table(std::size_t request_bytes, int rounds, std::chrono::milliseconds turn) {
  CRYPTIMG_ASSIGN_OR_RETURN(const auto image,
                            make_image("auto", CipherSpec(), 0, kThreadCounts.back()));
  std::array<std::vector<double>, kThreadCounts.size()> rates;
  std::array<Figure, kThreadCounts.size()> last;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t at = 0; at < kThreadCounts.size(); ++at) {
      last[at] = measure(*image, {IoRequest::Kind::read, request_bytes, kThreadCounts[at]}, turn);
      rates[at].push_back(last[at].requests_per_second);
    }
  }
  double best = 0;
  std::printf("reads of %zu bytes\n%8s %12s %22s %22s\n", request_bytes, "threads", "million/s",
              "range meetings/1000", "session meetings/1000");
  for (std::size_t at = 0; at < kThreadCounts.size(); ++at) {
    const double rate = median(rates[at]);
    best = std::max(best, rate);
    std::printf("%8u %12.3f %22.2f %22.2f\n", kThreadCounts[at], rate / kMillion,
                last[at].contended_ranges, last[at].contended_sessions);
  }
  constexpr double kKept = 0.8;
  const double kept = median(rates.back()) / best;
  std::printf("%u threads against the best: %.2f, at least %.2f: %s\n", kThreadCounts.back(), kept,
              kKept, kept >= kKept ? "reached" : "SHORT");
  return kept >= kKept;
}

Result<bool> workers_line(int rounds, std::chrono::milliseconds turn) {
  CipherSpec spec;
  spec.mode = CipherMode::aes_cbc;
  spec.iv = IvMode::essiv_sha256;
  spec.key_size_bytes = 32;
  CRYPTIMG_ASSIGN_OR_RETURN(const auto alone, make_image("openssl", spec, 0, 1));
  CRYPTIMG_ASSIGN_OR_RETURN(const auto helped, make_image("openssl", spec, 1, 1));
  const Load load{IoRequest::Kind::write, std::size_t{1} << 20, 1};
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const double base = measure(*alone, load, turn).requests_per_second;
    ratios.push_back(measure(*helped, load, turn).requests_per_second / base);
  }
  constexpr double kAtLeast = 1.8;
  const double ratio = median(ratios);
  const bool has_cores = std::thread::hardware_concurrency() >= 2;
  std::printf(
      "1 MiB writes, aes-cbc-essiv by openssl, one worker against none: %.2f, at least "
      "%.1f: %s\n",
      ratio, kAtLeast,
      !has_cores          ? "one core only"
      : ratio >= kAtLeast ? "reached"
                          : "SHORT");
  return ratio >= kAtLeast || !has_cores;
}

int run(bool quick, bool check) {
  const int rounds = quick ? 1 : 7;
  const std::chrono::milliseconds turn(quick ? 20 : 200);
  bool kept = true;
  for (const std::size_t request_bytes : {std::size_t{4096}, std::size_t{65536}}) {
    const auto table = threads_table(request_bytes, rounds, turn);
    if (!table) {
      std::fprintf(stderr, "scaling: %s\n", table.error().message.c_str());
      return EXIT_FAILURE;
    }
    kept = *table && kept;
  }
  const auto workers = workers_line(rounds, turn);
  if (!workers) {
    std::fprintf(stderr, "scaling: %s\n", workers.error().message.c_str());
    return EXIT_FAILURE;
  }
  kept = *workers && kept;
  return check && !kept ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace cryptimg::bench

int main(int argc, char** argv) {
  bool quick = false;
  bool check = false;
  for (int index = 1; index < argc; ++index) {
    const std::string_view word = argv[index];
    if (word != "--quick" && word != "--check") {
      std::fputs("usage: scaling [--quick] [--check]\n", stderr);
      return EXIT_FAILURE;
    }
    quick = quick || word == "--quick";
    check = check || word == "--check";
  }
  return cryptimg::bench::run(quick, check);
}
