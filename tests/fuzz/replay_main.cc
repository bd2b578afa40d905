// SPDX-License-Identifier: GPL-3.0-or-later
//
// Drives a fuzz target where libFuzzer is not: every seed as it is, then as many changed ones as
// asked for, the same ones each time. Finds less than libFuzzer, which sees what code ran; it is
// there so that every build, with any compiler, runs the targets. Understands libFuzzer's options
// -runs=N, -seed=N, -max_total_time=SECONDS and -dict=FILE, then files and folders of seeds.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

namespace {

using Random = std::mt19937_64;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The words of a dictionary: lines name="word", with \xNN, \\ and \".
std::vector<std::string> read_dictionary(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find('"');
    const std::size_t end = line.rfind('"');
    if (line.empty() || line[0] == '#' || begin >= end) {
      continue;
    }
    std::string word;
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (line[i] == '\\' && line[i + 1] == 'x') {
        word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
        i += 3;
      } else {
        i += line[i] == '\\' ? 1U : 0U;
        word += line[i];
      }
    }
    words.push_back(word);
  }
  return words;
}

std::size_t below(Random& random, std::size_t limit) {
  return limit == 0 ? 0 : random() % limit;
}

// One change of a kind that parsers trip over.
void change_once(std::string& input, Random& random, const std::vector<std::string>& seeds,
                 const std::vector<std::string>& words) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 16;
  const std::size_t at = below(random, input.size() + 1);
  const std::size_t length = below(random, std::min<std::size_t>(input.size() - at, 64) + 1);
  switch (below(random, 8)) {
    case 0:
      if (at < input.size()) {
        input[at] = static_cast<char>(input[at] ^ (1 << below(random, 8)));
      }
      break;
    case 1:
      if (at < input.size()) {
        input[at] = static_cast<char>(random());
      }
      break;
    case 2:
      input.erase(at, length);
      break;
    case 3:
      input.insert(at, input.substr(at, length));
      break;
    case 4:
      input.insert(at, 1 + below(random, 8), static_cast<char>(random()));
      break;
    case 5:
    case 6:
      if (!words.empty()) {
        const std::string& word = words[below(random, words.size())];
        input.replace(at, below(random, 2) == 0 ? 0 : std::min(length, word.size()), word);
      }
      break;
    default: {
      const std::string& other = seeds[below(random, seeds.size())];
      const std::size_t from = below(random, other.size() + 1);
      input = input.substr(0, at) + other.substr(from);
      break;
    }
  }
  input.resize(std::min(input.size(), kMaxBytes));
}

// What the handler of a failure keeps.
const std::string* running = nullptr;
std::string kept_path;

void run_one(const std::string& input) {
  running = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// Keeps the input that broke a law. Only calls that a signal handler may make.
extern "C" void keep_input(int signal_number) {
  const int file = ::open(kept_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  [[maybe_unused]] const ssize_t written = ::write(file, running->data(), running->size());
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

}  // namespace

// So that what a sanitizer finds comes to the handler too.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1";
}
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1";
}

int main(int argc, char** argv) {
  std::uint64_t runs = 0;
  std::uint64_t seed = 1;
  std::uint64_t seconds = 3600;
  std::vector<std::string> words;
  std::vector<std::string> seeds;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  for (const std::string& argument : arguments) {
    const std::string value = argument.substr(argument.find('=') + 1);
    if (argument.rfind("-runs=", 0) == 0) {
      runs = std::stoull(value);
    } else if (argument.rfind("-seed=", 0) == 0) {
      seed = std::stoull(value);
    } else if (argument.rfind("-max_total_time=", 0) == 0) {
      seconds = std::stoull(value);
    } else if (argument.rfind("-dict=", 0) == 0) {
      words = read_dictionary(value);
    } else if (std::filesystem::is_directory(argument)) {
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::directory_iterator(argument)) {
        files.push_back(entry.path());
      }
      std::sort(files.begin(), files.end());
      std::transform(files.begin(), files.end(), std::back_inserter(seeds), read_file);
    } else {
      seeds.push_back(read_file(argument));
    }
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds\n");
    return 1;
  }
  kept_path = std::string(argv[0]) + ".last-input";
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    ::signal(signal_number, keep_input);
  }
  for (const std::string& input : seeds) {
    run_one(input);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  Random random(seed);
  std::uint64_t done = 0;
  for (; done < runs && std::chrono::steady_clock::now() < end; ++done) {
    std::string input = seeds[below(random, seeds.size())];
    for (std::size_t changes = 1 + below(random, 4); changes > 0; --changes) {
      change_once(input, random, seeds, words);
    }
    run_one(input);
  }
  std::printf("%zu seeds and %llu changed ones\n", seeds.size(),
              static_cast<unsigned long long>(done));
  return 0;
}
