// SPDX-License-Identifier: GPL-3.0-or-later
//
// The offsets are cut into stripes of 1 MiB, and stripe s belongs to shard s mod kShardCount. A
// range is entered, whole, into each shard that one of its stripes belongs to: two ranges that
// overlap share a stripe, so they meet in at least one shard, and comparing whole ranges there
// keeps strangers in the same shard apart.
//
// A range takes its shards one after the other in ascending order, keeping what it has. Whoever
// waits in shard n waits for a range held in n, or for an earlier waiter in n; those that hold n
// wait, if at all, in higher shards. So in the highest shard with waiters the first of them waits
// for nobody who waits: no cycle.
#include "core/range_lock.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "core/counted_lock.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kStripeBytes = std::uint64_t{1} << 20;
constexpr std::size_t kShardCount = 64;
// More ranges than this held in one shard at once make its table grow, once.
constexpr std::size_t kReservedHolds = 32;

struct Range {
  std::uint64_t begin_bytes;
  std::uint64_t end_bytes;
  RangeLock::Mode mode;

  friend bool operator==(const Range&, const Range&) = default;
};

bool conflict(const Range& a, const Range& b) {
  const bool overlap = a.begin_bytes < b.end_bytes && b.begin_bytes < a.end_bytes;
  return overlap && (a.mode == RangeLock::Mode::exclusive || b.mode == RangeLock::Mode::exclusive);
}

// On the stack of the thread that waits; linked into its shard until granted.
struct Waiter {
  Range range;
  Waiter* next = nullptr;
  bool granted = false;
  std::condition_variable wake{};
};

// Calls `visit(shard index)` in ascending order, once for each shard the range belongs to.
template <typename Visit>
void for_each_shard(std::uint64_t begin_bytes, std::uint64_t end_bytes, Visit visit) {
  const std::uint64_t first = begin_bytes / kStripeBytes;
  const std::uint64_t count = (end_bytes - 1) / kStripeBytes - first + 1;
  if (count >= kShardCount) {
    for (std::size_t shard = 0; shard < kShardCount; ++shard) {
      visit(shard);
    }
    return;
  }
  // Consecutive stripes are consecutive shards, but for one wrap to the lowest.
  const auto from = static_cast<std::size_t>(first % kShardCount);
  const std::size_t to = from + static_cast<std::size_t>(count);
  for (std::size_t shard = kShardCount; shard < to; ++shard) {
    visit(shard - kShardCount);
  }
  for (std::size_t shard = from; shard < std::min(to, kShardCount); ++shard) {
    visit(shard);
  }
}

}  // namespace

// A cache line of its own each, so that neighbours do not share one.
struct alignas(64) RangeLock::Shard {
  std::mutex mutex;
  std::vector<Range> held;         // guarded by mutex
  Waiter* first_waiter = nullptr;  // guarded by mutex; in order of arrival

  Shard() { held.reserve(kReservedHolds); }

  // All below: mutex is held.

  // Whether `range` has to wait for a holder, or for a waiter that precedes `end` in the queue
  // (nullptr: for any waiter).
  bool blocked(const Range& range, const Waiter* end) const {
    if (std::any_of(held.begin(), held.end(),
                    [&](const Range& other) { return conflict(range, other); })) {
      return true;
    }
    for (const Waiter* waiter = first_waiter; waiter != end; waiter = waiter->next) {
      if (conflict(range, waiter->range)) {
        return true;
      }
    }
    return false;
  }

  void append(Waiter& waiter) {
    Waiter** link = &first_waiter;
    while (*link != nullptr) {
      link = &(*link)->next;
    }
    *link = &waiter;
  }

  void grant_waiters() {
    Waiter** link = &first_waiter;
    while (*link != nullptr) {
      Waiter& waiter = **link;
      if (blocked(waiter.range, &waiter)) {
        link = &waiter.next;
        continue;
      }
      *link = waiter.next;
      held.push_back(waiter.range);
      waiter.granted = true;
      // Under the mutex: once it is free, the waiter may be gone.
      waiter.wake.notify_one();
    }
  }
};

RangeLock::RangeLock() : shards_(std::make_unique<Shard[]>(kShardCount)) {}
RangeLock::~RangeLock() = default;

RangeLock::Hold RangeLock::acquire(std::uint64_t begin_bytes, std::uint64_t end_bytes, Mode mode) {
  const Range range{begin_bytes, end_bytes, mode};
  for_each_shard(begin_bytes, end_bytes, [&](std::size_t index) {
    Shard& shard = shards_[index];
    std::unique_lock lock = counted_lock(shard.mutex, contended_);
    if (!shard.blocked(range, nullptr)) {
      shard.held.push_back(range);
      return;
    }
    Waiter waiter{.range = range};
    shard.append(waiter);
    waiter.wake.wait(lock, [&] { return waiter.granted; });
  });
  Hold hold;
  hold.lock_ = this;
  hold.begin_bytes_ = begin_bytes;
  hold.end_bytes_ = end_bytes;
  hold.mode_ = mode;
  return hold;
}

RangeLock::Hold::Hold(Hold&& other) noexcept
    : lock_(std::exchange(other.lock_, nullptr)),
      begin_bytes_(other.begin_bytes_),
      end_bytes_(other.end_bytes_),
      mode_(other.mode_) {}

RangeLock::Hold& RangeLock::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    release();
    lock_ = std::exchange(other.lock_, nullptr);
    begin_bytes_ = other.begin_bytes_;
    end_bytes_ = other.end_bytes_;
    mode_ = other.mode_;
  }
  return *this;
}

void RangeLock::Hold::release() noexcept {
  RangeLock* const lock = std::exchange(lock_, nullptr);
  if (lock == nullptr) {
    return;
  }
  const Range range{begin_bytes_, end_bytes_, mode_};
  for_each_shard(begin_bytes_, end_bytes_, [&](std::size_t index) {
    Shard& shard = lock->shards_[index];
    const std::unique_lock guard = counted_lock(shard.mutex, lock->contended_);
    // Equal entries are shared ones and interchangeable.
    const auto entry = std::find(shard.held.begin(), shard.held.end(), range);
    *entry = shard.held.back();
    shard.held.pop_back();
    shard.grant_waiters();
  });
}

}  // namespace cryptimg
