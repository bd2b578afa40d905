// SPDX-License-Identifier: GPL-3.0-or-later
//
// The life of a slot: free -> filling -> ready; whoever reads a chunk's end makes it stale, since a
// stream does not come back, and the last to let go frees it. A write turns filling into doomed,
// which the filler frees, and ready into free, or stale while pinned. Only the helper thread fills,
// and every half second wipes what was freed. Why a fill across a write is never published: the
// filler marks its slot and then looks for writers, a writer counts itself and then looks for
// slots, both in one (sequentially consistent) order, so that one of the two sees the other.
#include "core/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "core/mapped_file.h"
#include "core/secret.h"
#include "core/signal_stack.h"
#include "core/thread_error.h"

namespace cryptimg {
namespace {

constexpr std::uint64_t kStripeBytes = std::uint64_t{1} << 20;
constexpr std::chrono::milliseconds kExpiry{500};
constexpr std::uint64_t kMinSlots = 4;
constexpr std::uint64_t kPin = 1U << 8;
constexpr std::uint64_t kPinMask = 0xff00;

template <typename State>
constexpr std::uint64_t word(std::uint64_t chunk, State state) {
  return chunk << 16 | static_cast<std::uint64_t>(state);
}

}  // namespace

Result<std::unique_ptr<ReadAhead>> ReadAhead::create(std::uint64_t ring_bytes,
                                                     std::uint64_t image_bytes, Source& source,
                                                     Priority priority) {
  const std::uint64_t slots = std::max(ring_bytes / kChunkBytes, kMinSlots);
  CRYPTIMG_ASSIGN_OR_RETURN(AnonymousMemory memory, AnonymousMemory::create(slots * kChunkBytes));
  std::unique_ptr<ReadAhead> ahead(new ReadAhead(std::move(memory), image_bytes, source));
  try {
    ahead->thread_ = std::thread([raw = ahead.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return tl::unexpected(thread_error("cannot start the read-ahead thread", error));
  }
  if (priority == Priority::idle) {
    // Nothing is held while this thread waits for a core but mutex_, for which no reader or writer
    // waits.
    const sched_param none = {};
    ::pthread_setschedparam(ahead->thread_.native_handle(), SCHED_IDLE, &none);
  }
  return ahead;
}

ReadAhead::ReadAhead(AnonymousMemory memory, std::uint64_t image_bytes, Source& source)
    : memory_(std::move(memory)),
      image_bytes_(image_bytes),
      source_(source),
      slots_(memory_.bytes().size() / kChunkBytes),
      holds_plaintext_(slots_.size()) {}

bool ReadAhead::stop(std::chrono::milliseconds patience) noexcept {
  std::unique_lock lock(mutex_);
  stop_ = true;
  wake_.notify_all();
  return ended_.wait_for(lock, patience, [this] { return has_ended_; });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

MutableBytes ReadAhead::memory_of(std::size_t slot) const noexcept {
  return memory_.bytes().subspan(slot * kChunkBytes, kChunkBytes);
}

void ReadAhead::take(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                     Taken& taken) noexcept {
  taken.count = 0;
  taken.bytes = 0;
  while (length_bytes > 0 && taken.count < kMaxPieces) {
    const std::uint64_t ready = word(offset_bytes / kChunkBytes, State::ready);
    const auto is_it = [ready](const std::atomic<std::uint64_t>& slot) {
      return (slot.load(std::memory_order_relaxed) & ~kPinMask) == ready;
    };
    const auto found = std::find_if(slots_.begin(), slots_.end(), is_it);
    if (found == slots_.end()) {
      return;
    }
    std::uint64_t seen = found->load();
    do {
      if ((seen & ~kPinMask) != ready || (seen & kPinMask) == kPinMask) {
        return;
      }
    } while (!found->compare_exchange_weak(seen, seen + kPin));
    const auto slot = static_cast<std::size_t>(found - slots_.begin());
    const std::size_t skipped = offset_bytes % kChunkBytes;
    const std::size_t part = std::min<std::uint64_t>(length_bytes, kChunkBytes - skipped);
    if (skipped + part == kChunkBytes || offset_bytes + part == image_bytes_) {
      retire(*found);
    }
    taken.pieces[taken.count] = memory_of(slot).subspan(skipped, part);
    taken.slots[taken.count] = static_cast<std::uint16_t>(slot);
    ++taken.count;
    taken.bytes += part;
    offset_bytes += part;
    length_bytes -= part;
  }
}

// REQUIRES: pinned by the caller.
void ReadAhead::retire(std::atomic<std::uint64_t>& slot) noexcept {
  std::uint64_t seen = slot.load();
  while (static_cast<State>(seen & 0xff) == State::ready &&
         !slot.compare_exchange_weak(seen, word(seen >> 16, State::stale) | (seen & kPinMask))) {
  }
}

void ReadAhead::release(Taken& taken) noexcept {
  hit_bytes_.fetch_add(taken.bytes, std::memory_order_relaxed);
  for (std::size_t piece = 0; piece < taken.count; ++piece) {
    std::atomic<std::uint64_t>& slot = slots_[taken.slots[piece]];
    std::uint64_t seen = slot.load();
    std::uint64_t next = 0;
    do {
      const bool was_last = (seen & kPinMask) == kPin;
      const bool is_stale = (seen & 0xff) == static_cast<std::uint64_t>(State::stale);
      next = was_last && is_stale ? word(0, State::free) : seen - kPin;
    } while (!slot.compare_exchange_weak(seen, next));
  }
  taken.count = 0;
  taken.bytes = 0;
}

template <typename Visit>
void ReadAhead::for_each_stripe(const ByteExtent& range, Visit visit) noexcept {
  const std::uint64_t first = range.offset_bytes / kStripeBytes;
  const std::uint64_t last = (range.end_bytes() - 1) / kStripeBytes;
  for (std::uint64_t stripe = first; stripe <= last && stripe < first + kStripes; ++stripe) {
    visit(writers_[stripe % kStripes]);
  }
}

void ReadAhead::begin_write(const ByteExtent& range) noexcept {
  for_each_stripe(range, [](std::atomic<std::uint32_t>& writers) { writers.fetch_add(1); });
  const std::uint64_t first = range.offset_bytes / kChunkBytes;
  const std::uint64_t last = (range.end_bytes() - 1) / kChunkBytes;
  for (std::atomic<std::uint64_t>& slot : slots_) {
    std::uint64_t seen = slot.load();
    for (;;) {
      const std::uint64_t chunk = seen >> 16;
      const auto state = static_cast<State>(seen & 0xff);
      if (chunk < first || chunk > last || (state != State::filling && state != State::ready)) {
        break;
      }
      const std::uint64_t pins = seen & kPinMask;
      const std::uint64_t next = state == State::filling ? word(chunk, State::doomed)
                                 : pins != 0             ? word(chunk, State::stale) | pins
                                                         : word(0, State::free);
      if (slot.compare_exchange_weak(seen, next)) {
        dropped_.fetch_add(1, std::memory_order_relaxed);
        break;
      }
    }
  }
}

void ReadAhead::end_write(const ByteExtent& range) noexcept {
  for_each_stripe(range, [](std::atomic<std::uint32_t>& writers) { writers.fetch_sub(1); });
}

bool ReadAhead::being_written(std::uint64_t chunk) const noexcept {
  return writers_[chunk * kChunkBytes / kStripeBytes % kStripes].load() != 0;
}

bool ReadAhead::note_read(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return false;
  }
  const Found found = find_stream(offset_bytes, offset_bytes + length_bytes);
  if (found == Found::hungry_stream && sleeping_) {
    sleeping_ = false;
    wake_.notify_one();
  }
  return found != Found::nothing;
}

std::size_t ReadAhead::claim_slot(std::uint64_t chunk) noexcept {
  const auto is_it = [chunk](const std::atomic<std::uint64_t>& slot) {
    return (slot.load() & ~kPinMask) == word(chunk, State::ready);
  };
  if (std::any_of(slots_.begin(), slots_.end(), is_it)) {
    return slots_.size();
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    std::uint64_t seen = slots_[slot].load();
    const auto state = static_cast<State>(seen & 0xff);
    const bool is_usable =
        state == State::free ||
        (state == State::ready && (seen & kPinMask) == 0 && !is_wanted(seen >> 16));
    if (is_usable && slots_[slot].compare_exchange_strong(seen, word(chunk, State::filling))) {
      holds_plaintext_[slot] = true;
      return slot;
    }
  }
  return slots_.size();
}

bool ReadAhead::fill(std::uint64_t chunk, std::size_t slot) noexcept {
  const std::uint64_t offset_bytes = chunk * kChunkBytes;
  const std::size_t length_bytes =
      std::min<std::uint64_t>(kChunkBytes, image_bytes_ - offset_bytes);
  const bool is_filled =
      !being_written(chunk) &&
      source_.fill(offset_bytes, memory_of(slot).first(length_bytes)).has_value();
  std::uint64_t expected = word(chunk, State::filling);
  const auto is_late = [&] {
    const std::lock_guard lock(mutex_);
    return !is_wanted(chunk);
  };
  if (is_filled && !is_late() &&
      slots_[slot].compare_exchange_strong(expected, word(chunk, State::ready))) {
    filled_bytes_.fetch_add(length_bytes, std::memory_order_relaxed);
    return true;
  }
  slots_[slot].store(word(0, State::free));
  return false;
}

bool ReadAhead::expire() noexcept {
  static constexpr std::uint64_t kNever = 0;
  for (Stream& stream : streams_) {
    stream.in_use = stream.in_use && stream.used_at != kNever;
    stream.used_at = kNever;  // until it is read again
  }
  bool keeps =
      std::any_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.in_use; });
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    std::uint64_t seen = slots_[slot].load();
    if (!holds_plaintext_[slot]) {
      continue;
    }
    const auto state = static_cast<State>(seen & 0xff);
    const bool is_over = state == State::free || (state == State::ready && (seen & kPinMask) == 0 &&
                                                  !is_wanted(seen >> 16));
    if (!is_over || !slots_[slot].compare_exchange_strong(seen, word(seen >> 16, State::doomed))) {
      keeps = true;
      continue;
    }
    wipe(memory_of(slot));
    holds_plaintext_[slot] = false;
    slots_[slot].store(word(0, State::free));
  }
  return keeps;
}

bool ReadAhead::clear(std::chrono::milliseconds patience) noexcept {
  std::unique_lock lock(mutex_);
  streams_ = {};
  candidates_ = {};
  if (!filled_.wait_for(lock, patience, [this] { return !filling_; })) {
    return false;
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    if (holds_plaintext_[slot]) {
      wipe(memory_of(slot));
    }
    holds_plaintext_[slot] = false;
    slots_[slot].store(word(0, State::free));
  }
  return true;
}

ReadAhead::Counters ReadAhead::counters() const noexcept {
  return {hit_bytes_.load(), filled_bytes_.load(), dropped_.load()};
}

void ReadAhead::run() noexcept {
  ::pthread_setname_np(::pthread_self(), "cryptimg-ahead");
  block_signals();
  const SignalStack signal_stack;
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  bool keeps = false;
  Clock::time_point expired_at;
  while (!stop_) {
    if (keeps && Clock::now() - expired_at >= kExpiry) {
      keeps = expire();
      expired_at = Clock::now();
    }
    std::uint64_t chunk = 0;
    if (next_fill(chunk)) {
      const std::size_t slot = claim_slot(chunk);
      if (!std::exchange(keeps, true)) {
        expired_at = Clock::now();
      }
      filling_ = true;
      lock.unlock();
      if (slot < slots_.size()) {
        fill(chunk, slot);
      }
      lock.lock();
      filling_ = false;
      filled_.notify_all();
      continue;
    }
    sleeping_ = true;
    if (keeps) {
      wake_.wait_for(lock, kExpiry);
    } else {
      wake_.wait(lock);
    }
    sleeping_ = false;
  }
  has_ended_ = true;
  ended_.notify_all();
}

}  // namespace cryptimg
