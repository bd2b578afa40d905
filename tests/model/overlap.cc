// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/model/overlap.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "core/unique_fd.h"
#include "tests/model/aio.h"
#include "tests/model/history.h"
#include "tests/model/image_file.h"
#include "tests/model/random.h"

namespace cryptimg::model {
namespace {

constexpr std::uint64_t kRegionBytes = 2 << 20;
constexpr std::uint64_t kHotBytes = 65536;
constexpr std::uint64_t kMaxBytes = 262144;
constexpr std::uint64_t kMaxCells = 256;
constexpr std::uint64_t kPageBytes = 4096;
constexpr unsigned kDepth = 4;
constexpr std::uint32_t kRoundOperations = 4000;

struct FreeDeleter {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<std::byte[], FreeDeleter>;

Buffer make_buffer(std::uint64_t bytes) {
  const std::uint64_t whole = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, whole)));
}

// What the threads of one run share.
struct Shared {
  int fd = -1;
  std::uint64_t cell_bytes = 0;
  std::uint64_t cells = 0;
  std::atomic<std::uint64_t> clock{1};

  std::uint64_t now() { return clock.fetch_add(1); }
};

// One read or write of some cells.
struct Request {
  Buffer buffer = make_buffer(kMaxBytes);
  std::uint64_t first_cell = 0;
  std::uint64_t cells = 0;
  Tag tag = 0;
  std::uint64_t begin = 0;
  bool is_read = false;
};

class Worker {
 public:
  Worker(Shared& shared, std::uint64_t number, std::uint64_t seed,
         std::optional<std::uint32_t> spoil_read)
      : shared_(shared), number_(number), random_(seed + number), spoil_read_(spoil_read) {}

  // Ends early, with a problem, at the first system call that fails.
  void run(std::uint32_t count) {
    for (std::uint32_t done = 0; done < count && problem_.empty();) {
      const unsigned batch = random_.percent(50) ? kDepth : 1;
      for (unsigned index = 0; index < batch; ++index) {
        prepare(requests_[index]);
      }
      if (batch == 1 || !aio_.valid()) {
        run_one(requests_[0]);
        done += 1;
      } else {
        run_together();
        done += batch;
      }
      if (random_.percent(1) && ::fdatasync(shared_.fd) != 0) {
        problem_ = failure_of("fdatasync");
      }
    }
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  // What it did and saw since the last call.
  std::vector<Event> take_events() { return std::exchange(events_, {}); }

 private:
  void prepare(Request& request) {
    const std::uint64_t most = std::min({kMaxCells, kMaxBytes / shared_.cell_bytes, shared_.cells});
    const std::uint64_t hot =
        std::clamp<std::uint64_t>(kHotBytes / shared_.cell_bytes, 1, shared_.cells);
    request.is_read = random_.percent(50);
    request.cells =
        random_.between(1, random_.percent(70) ? std::min<std::uint64_t>(most, 12) : most);
    request.first_cell = random_.below(random_.percent(70) ? hot : shared_.cells);
    request.first_cell = std::min(request.first_cell, shared_.cells - request.cells);
    if (!request.is_read) {
      request.tag = make_tag(number_, ++sequence_);
      for (std::uint64_t index = 0; index < request.cells; ++index) {
        write_cell(cell(request, index), request.first_cell + index, request.tag);
      }
    }
  }

  [[nodiscard]] std::uint64_t bytes_of(const Request& request) const {
    return request.cells * shared_.cell_bytes;
  }
  [[nodiscard]] std::uint64_t offset_of(const Request& request) const {
    return request.first_cell * shared_.cell_bytes;
  }
  [[nodiscard]] std::span<std::byte> cell(const Request& request, std::uint64_t index) const {
    return {request.buffer.get() + index * shared_.cell_bytes, shared_.cell_bytes};
  }

  void run_one(Request& request) {
    const auto offset = static_cast<off_t>(offset_of(request));
    request.begin = shared_.now();
    const ssize_t got = request.is_read
                            ? ::pread(shared_.fd, request.buffer.get(), bytes_of(request), offset)
                            : ::pwrite(shared_.fd, request.buffer.get(), bytes_of(request), offset);
    note(request, got < 0 ? -errno : got);
  }

  void run_together() {
    std::array<iocb, kDepth> blocks = {};
    std::array<iocb*, kDepth> list = {};
    for (unsigned index = 0; index < kDepth; ++index) {
      Request& request = requests_[index];
      iocb& block = blocks[index];
      block.aio_data = index;
      block.aio_fildes = static_cast<std::uint32_t>(shared_.fd);
      block.aio_lio_opcode = request.is_read ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
      block.aio_buf = reinterpret_cast<std::uintptr_t>(request.buffer.get());
      block.aio_nbytes = bytes_of(request);
      block.aio_offset = static_cast<std::int64_t>(offset_of(request));
      list[index] = &block;
      request.begin = shared_.now();
    }
    const long started = aio_.submit(list);
    for (long ended = 0; ended < started; ++ended) {
      io_event event = {};
      if (aio_.wait(event) != 1) {
        problem_ = "an asynchronous request does not end";
        return;
      }
      note(requests_[event.data], event.res);
    }
    if (started != kDepth) {
      problem_ = failure_of("io_submit");
    }
  }

  // Takes down a request that has just ended.
  void note(const Request& request, std::int64_t got) {
    const std::uint64_t end = shared_.now();
    if (got != static_cast<std::int64_t>(bytes_of(request))) {
      problem_ = std::string(request.is_read ? "a read" : "a write") + " of " +
                 std::to_string(bytes_of(request)) + " bytes at " +
                 std::to_string(offset_of(request)) + " gives " +
                 (got < 0 ? std::strerror(static_cast<int>(-got)) : std::to_string(got));
      return;
    }
    if (request.is_read && spoil_read_ && ++reads_ == *spoil_read_) {
      request.buffer[bytes_of(request) / 2] ^= std::byte{1};
    }
    for (std::uint64_t index = 0; index < request.cells && problem_.empty(); ++index) {
      const std::uint64_t number = request.first_cell + index;
      std::optional<Tag> tag = request.tag;
      if (request.is_read) {
        tag = read_cell(cell(request, index), number);
      }
      if (!tag) {
        problem_ = "a read found at " + std::to_string(number * shared_.cell_bytes) +
                   " a cell of " + std::to_string(shared_.cell_bytes) +
                   " bytes that no write wrote as a whole";
        return;
      }
      events_.push_back(Event{number, *tag, request.begin, end, request.is_read});
    }
  }

  Shared& shared_;
  const std::uint64_t number_;
  Random random_;
  const std::optional<std::uint32_t> spoil_read_;
  std::uint32_t reads_ = 0;
  std::uint64_t sequence_ = 0;
  std::array<Request, kDepth> requests_;
  std::vector<Event> events_;
  std::string problem_;
  Aio aio_{kDepth};  // goes before the buffers it may still use
};

// Reads every cell, with nobody else there: events like any others.
std::optional<std::string> read_all(Shared& shared, std::vector<Event>& events) {
  const std::uint64_t bytes = shared.cells * shared.cell_bytes;
  const Buffer buffer = make_buffer(bytes);
  const std::uint64_t begin = shared.now();
  if (::pread(shared.fd, buffer.get(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return failure_of("read of all cells");
  }
  const std::uint64_t end = shared.now();
  for (std::uint64_t number = 0; number < shared.cells; ++number) {
    const std::span<std::byte> cell(buffer.get() + number * shared.cell_bytes, shared.cell_bytes);
    const std::optional<Tag> tag = read_cell(cell, number);
    if (!tag) {
      return "at the end a cell is not of one piece, at " +
             std::to_string(number * shared.cell_bytes);
    }
    events.push_back(Event{number, *tag, begin, end, true});
  }
  return std::nullopt;
}

std::optional<std::string> write_all(Shared& shared, Tag tag) {
  const std::uint64_t bytes = shared.cells * shared.cell_bytes;
  const Buffer buffer = make_buffer(bytes);
  for (std::uint64_t number = 0; number < shared.cells; ++number) {
    write_cell({buffer.get() + number * shared.cell_bytes, shared.cell_bytes}, number, tag);
  }
  if (::pwrite(shared.fd, buffer.get(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    return failure_of("write of all cells");
  }
  return std::nullopt;
}

// `latest` holds each cell's tag, before and after.
std::optional<std::string> judge_all(const Shared& shared, std::vector<Event>& events,
                                     std::vector<Tag>& latest) {
  std::stable_sort(events.begin(), events.end(), [](const Event& one, const Event& other) {
    return one.cell_number < other.cell_number;
  });
  for (auto first = events.begin(); first != events.end();) {
    const std::uint64_t number = first->cell_number;
    const auto last = std::find_if(first, events.end(),
                                   [&](const Event& event) { return event.cell_number != number; });
    if (auto problem = judge(latest[number], {first, last})) {
      return "in the cell at " + std::to_string(number * shared.cell_bytes) + " " +
             *std::move(problem);
    }
    // The last event of a cell is read_all's.
    latest[number] = std::prev(last)->tag;
    first = last;
  }
  return std::nullopt;
}

std::optional<std::string> run_round(Shared& shared, std::vector<std::unique_ptr<Worker>>& workers,
                                     std::uint32_t count, std::vector<Tag>& latest) {
  std::vector<std::thread> threads;
  threads.reserve(workers.size());
  for (const auto& worker : workers) {
    threads.emplace_back([&worker, count] { worker->run(count); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<Event> events;
  for (const auto& worker : workers) {
    if (!worker->problem().empty()) {
      return worker->problem();
    }
    const std::vector<Event> seen = worker->take_events();
    events.insert(events.end(), seen.begin(), seen.end());
  }
  if (auto problem = read_all(shared, events)) {
    return problem;
  }
  return judge_all(shared, events, latest);
}

}  // namespace

std::optional<std::string> run_overlap(const std::string& path, const OverlapPlan& plan) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  struct stat attributes = {};
  if (!fd.valid() || ::fstat(fd.get(), &attributes) != 0) {
    return failure_of("open " + path);
  }
  Shared shared;
  shared.fd = fd.get();
  shared.cell_bytes = plan.cell_bytes;
  shared.cells =
      std::min(static_cast<std::uint64_t>(attributes.st_size), kRegionBytes) / plan.cell_bytes;
  std::vector<Tag> latest(shared.cells, make_tag(0, 1));
  if (auto problem = write_all(shared, latest.front())) {
    return problem;
  }
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned index = 1; index <= plan.threads; ++index) {
    workers.push_back(std::make_unique<Worker>(shared, index, mix(plan.seed),
                                               index == 1 ? plan.spoil_read : std::nullopt));
  }
  for (std::uint32_t done = 0; done < plan.count; done += kRoundOperations) {
    const std::uint32_t round = std::min(plan.count - done, kRoundOperations);
    if (auto problem =
            run_round(shared, workers, (round + plan.threads - 1) / plan.threads, latest)) {
      return problem;
    }
  }
  return std::nullopt;
}

}  // namespace cryptimg::model
