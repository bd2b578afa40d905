// SPDX-License-Identifier: GPL-3.0-or-later
//
// cryptimg_model: random operations on a mounted image, checked against a model. See `kUsage`.
// Exit 0: all was right; 1: it was not, with what, the seed, and a short trace on stdout; 2: it
// could not be tried.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include <sys/stat.h>

#include "tests/model/image_file.h"
#include "tests/model/model.h"
#include "tests/model/operations.h"
#include "tests/model/overlap.h"
#include "tests/model/player.h"
#include "tests/model/shrink.h"

namespace cryptimg::model {
namespace {

constexpr const char* kUsage =
    R"(usage: cryptimg_model MODE IMAGE [NAME=VALUE...]
  trace      one thread, operations of every kind; the same seed does the same again
  disjoint   several threads, each as above in a part of its own
  overlap    several threads at the same places, by direct I/O, judged cell by cell
  replay     the trace that stdin holds, one operation a line
The whole content of the image is overwritten.
  seed=N operations=N threads=N
  cell=BYTES        overlap: the encryption sector, or less
  drop-caches=1     the machine's caches too, now and then (root)
  save=FILE         afterwards, what the image should hold
  shrink=SECONDS    how long a failing trace is made shorter (default 60)
  spoil=N           be wrong about the first change from operation N on, or the N-th read of a thread
)";

struct Settings {
  std::string mode;
  std::string image;
  std::map<std::string, std::string> values;

  [[nodiscard]] bool has(const std::string& name) const { return values.count(name) != 0; }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  }
  [[nodiscard]] std::uint64_t number(const std::string& name, std::uint64_t otherwise) const {
    return has(name) ? std::stoull(text(name)) : otherwise;
  }
};

bool parse(int argc, char** argv, Settings& settings) {
  if (argc < 3) {
    return false;
  }
  settings.mode = argv[1];
  settings.image = argv[2];
  for (int index = 3; index < argc; ++index) {
    const std::string word = argv[index];
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return false;
    }
    const std::string name = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    const bool is_number = !value.empty() && value.size() < 20 &&
                           value.find_first_not_of("0123456789") == std::string::npos;
    constexpr std::array<const char*, 7> kNumbers = {"seed",        "operations", "threads", "cell",
                                                     "drop-caches", "shrink",     "spoil"};
    const bool wants_number = std::find(kNumbers.begin(), kNumbers.end(), name) != kNumbers.end();
    if (wants_number ? !is_number : name != "save") {
      return false;
    }
    settings.values[name] = value;
  }
  return true;
}

class Program {
 public:
  Program(const Settings& settings, std::uint64_t size_bytes)
      : settings_(settings), model_(size_bytes) {
    seed_ = settings.number("seed", std::random_device()());
    count_ = static_cast<std::uint32_t>(settings.number("operations", 10000));
    threads_ = static_cast<unsigned>(settings.number("threads", 4));
    if (settings.has("spoil")) {
      spoil_ = static_cast<std::uint32_t>(settings.number("spoil", 0));
    }
  }

  int run() {
    std::cout << settings_.mode << ", seed " << seed_ << ", " << count_ << " operations"
              << std::endl;
    int code = 2;
    if (settings_.mode == "trace") {
      code = play_alone(make_trace(plan()));
    } else if (settings_.mode == "replay") {
      code = replay();
    } else if (settings_.mode == "disjoint") {
      code = play_disjoint();
    } else if (settings_.mode == "overlap") {
      code = overlap();
    } else {
      std::cerr << kUsage;
    }
    return code == 0 && settings_.has("save") ? save() : code;
  }

 private:
  [[nodiscard]] Plan plan() const {
    return {seed_,
            count_,
            0,
            model_.size_bytes(),
            model_.size_bytes(),
            settings_.number("drop-caches", 0) != 0};
  }

  // Also a problem with the image itself is a failure, of operation 0.
  std::optional<Failure> play_from_reset(const Trace& trace) {
    if (auto problem = reset_content(settings_.image, model_)) {
      return Failure{0, *problem};
    }
    ImageFile file(settings_.image);
    if (auto problem = file.open()) {
      return Failure{0, *problem};
    }
    if (auto failure = Player(file, model_, spoil_).play(trace)) {
      return failure;
    }
    if (auto problem = file.close()) {
      return Failure{trace.size(), *problem};
    }
    return std::nullopt;
  }

  int play_alone(const Trace& trace) {
    const auto failure = play_from_reset(trace);
    if (!failure) {
      return 0;
    }
    report(trace, *failure);
    show_short(trace, failure->index);
    return 1;
  }

  void report(const Trace& trace, const Failure& failure) const {
    std::cout << "FAILED: seed " << seed_ << ", "
              << (failure.index < trace.size() ? to_text(trace[failure.index]) : "at the end")
              << ": " << failure.problem << std::endl;
  }

  // Shrinks what was done up to the failure and prints it.
  void show_short(const Trace& trace, std::size_t failed_index) {
    constexpr std::size_t kMaxLines = 200;
    Trace done(trace.begin(),
               trace.begin() + static_cast<long>(std::min(failed_index + 1, trace.size())));
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::seconds(settings_.number("shrink", 60));
    // What a read in the middle saw should be seen at the end too.
    const Trace last = final_reads(plan());
    const auto fails = [&](const Trace& candidate) {
      Trace whole = candidate;
      whole.insert(whole.end(), last.begin(), last.end());
      return play_from_reset(whole).has_value();
    };
    const Shrunk result = shrink(std::move(done), fails, until);
    if (!result.is_reproduced) {
      std::cout << "The same " << result.trace.size()
                << " operations, alone and from the same content, did not fail again." << std::endl;
    }
    std::cout << "shrunk to " << result.trace.size() << " operations in " << result.runs
              << " runs; give these lines to `cryptimg_model replay IMAGE`:" << std::endl;
    const std::size_t skipped =
        result.trace.size() > kMaxLines ? result.trace.size() - kMaxLines : 0;
    if (skipped > 0) {
      std::cout << "  (" << skipped << " more before these)" << std::endl;
    }
    for (std::size_t index = skipped; index < result.trace.size(); ++index) {
      std::cout << "  " << to_text(result.trace[index]) << std::endl;
    }
  }

  int replay() {
    Trace trace;
    for (std::string line; std::getline(std::cin, line);) {
      const auto operation = parse_operation(line);
      if (!operation) {
        std::cerr << "not an operation: " << line << std::endl;
        return 2;
      }
      trace.push_back(*operation);
    }
    const Trace last = final_reads(plan());
    trace.insert(trace.end(), last.begin(), last.end());
    const auto failure = play_from_reset(trace);
    if (failure) {
      report(trace, *failure);
    }
    return failure ? 1 : 0;
  }

  int play_disjoint() {
    constexpr std::uint64_t kGrainBytes = 65536;
    const std::uint64_t part =
        threads_ == 0 ? 0 : model_.size_bytes() / threads_ / kGrainBytes * kGrainBytes;
    if (part == 0) {
      std::cerr << "the image cannot be divided among " << threads_ << " threads" << std::endl;
      return 2;
    }
    if (auto problem = reset_content(settings_.image, model_)) {
      std::cout << "FAILED: seed " << seed_ << ": " << *problem << std::endl;
      return 1;
    }
    std::vector<Trace> traces;
    for (unsigned index = 0; index < threads_; ++index) {
      Plan mine = plan();
      mine.seed = seed_ + index;
      mine.count = count_ / threads_;
      mine.begin = part * index;
      mine.end = index + 1 == threads_ ? model_.size_bytes() : mine.begin + part;
      traces.push_back(make_trace(mine));
    }
    return play_together(traces);
  }

  int play_together(const std::vector<Trace>& traces) {
    std::vector<std::optional<Failure>> failures(traces.size());
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < traces.size(); ++index) {
      threads.emplace_back([&, index] {
        ImageFile file(settings_.image);
        if (auto problem = file.open()) {
          failures[index] = Failure{0, *problem};
          return;
        }
        failures[index] =
            Player(file, model_, index == 0 ? spoil_ : std::nullopt).play(traces[index]);
        if (auto problem = file.close(); problem && !failures[index]) {
          failures[index] = Failure{traces[index].size(), *problem};
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    int code = 0;
    for (std::size_t index = 0; index < traces.size(); ++index) {
      if (failures[index]) {
        std::cout << "in thread " << index << ":" << std::endl;
        report(traces[index], *failures[index]);
        if (code == 0) {
          show_short(traces[index], failures[index]->index);
        }
        code = 1;
      }
    }
    return code;
  }

  int overlap() {
    OverlapPlan overlapping;
    overlapping.seed = seed_;
    overlapping.threads = threads_;
    overlapping.count = count_;
    overlapping.cell_bytes = settings_.number("cell", 4096);
    overlapping.spoil_read = spoil_;
    if (overlapping.cell_bytes == 0 || overlapping.cell_bytes % 8 != 0 || threads_ == 0) {
      std::cerr << kUsage;
      return 2;
    }
    if (const auto problem = run_overlap(settings_.image, overlapping)) {
      std::cout << "FAILED: seed " << seed_ << ", cells of " << overlapping.cell_bytes
                << " bytes: " << *problem << std::endl;
      return 1;
    }
    return 0;
  }

  // After overlap, what should be there is what was judged right: the image's own content.
  int save() {
    std::ofstream file(settings_.text("save"), std::ios::binary | std::ios::trunc);
    if (settings_.mode == "overlap") {
      file << std::ifstream(settings_.image, std::ios::binary).rdbuf();
    } else {
      file.write(reinterpret_cast<const char*>(model_.bytes().data()),
                 static_cast<std::streamsize>(model_.size_bytes()));
    }
    file.close();
    if (!file) {
      std::cerr << "cannot write " << settings_.text("save") << std::endl;
      return 2;
    }
    return 0;
  }

  const Settings& settings_;
  Model model_;
  std::uint64_t seed_ = 0;
  std::uint32_t count_ = 0;
  unsigned threads_ = 0;
  std::optional<std::uint32_t> spoil_;
};

}  // namespace
}  // namespace cryptimg::model

int main(int argc, char** argv) {
  cryptimg::model::Settings settings;
  if (!cryptimg::model::parse(argc, argv, settings)) {
    std::cerr << cryptimg::model::kUsage;
    return 2;
  }
  struct stat attributes = {};
  if (::stat(settings.image.c_str(), &attributes) != 0 || attributes.st_size < 65536) {
    std::cerr << "not an image of at least 64 KiB: " << settings.image << std::endl;
    return 2;
  }
  return cryptimg::model::Program(settings, static_cast<std::uint64_t>(attributes.st_size)).run();
}
