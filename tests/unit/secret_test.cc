// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/secret.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/key_digest.h"
#include "core/signal_stack.h"

namespace cryptimg {
namespace {

constexpr std::array<std::byte, 5> kBytes = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                             std::byte{5}};

bool equal(Bytes left, Bytes right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

TEST(SecretTest, AllocateGivesZeroedBytes) {
  const Result<Secret> secret = Secret::allocate(4097);
  ASSERT_TRUE(secret);
  ASSERT_EQ(secret->size(), 4097U);
  EXPECT_TRUE(std::all_of(secret->bytes().begin(), secret->bytes().end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(SecretTest, CopyHoldsTheSameBytesElsewhere) {
  const Result<Secret> secret = Secret::copy_of(kBytes);
  ASSERT_TRUE(secret);
  EXPECT_TRUE(equal(secret->bytes(), kBytes));
  EXPECT_NE(secret->bytes().data(), kBytes.data());
  EXPECT_EQ(static_cast<const void*>(secret->chars()),
            static_cast<const void*>(secret->bytes().data()));
}

TEST(SecretTest, AChildOfAForkFindsZeros) {
  const Secret secret = Secret::copy_of(kBytes).value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Bytes bytes = secret.bytes();
    const bool is_clean =
        std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    ::_exit(is_clean ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(equal(secret.bytes(), kBytes));
}

TEST(SecretTest, EmptyOnesWork) {
  Secret none;
  EXPECT_TRUE(none.empty());
  none.shrink(0);
  Result<Secret> empty = Secret::copy_of({});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
  EXPECT_TRUE(empty->mutable_bytes().empty());
}

TEST(SecretTest, MovingLeavesNothingBehind) {
  Secret first = Secret::copy_of(kBytes).value();
  const std::byte* address = first.bytes().data();
  Secret second(std::move(first));
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): what the contract is about
  EXPECT_EQ(second.bytes().data(), address);

  Secret third = Secret::allocate(1).value();
  third = std::move(second);
  EXPECT_TRUE(second.empty());  // NOLINT(bugprone-use-after-move): as above
  EXPECT_TRUE(equal(third.bytes(), kBytes));
  Secret& self = third;
  third = std::move(self);
  EXPECT_TRUE(equal(third.bytes(), kBytes));
}

TEST(SecretTest, ShrinkZeroesTheRest) {
  Secret secret = Secret::copy_of(kBytes).value();
  const std::byte* address = secret.bytes().data();
  secret.shrink(2);
  EXPECT_TRUE(equal(secret.bytes(), Bytes(kBytes).first(2)));
  for (std::size_t i = 2; i < kBytes.size(); ++i) {
    EXPECT_EQ(address[i], std::byte{0});
  }
}

TEST(SecretTest, WipeZeroes) {
  std::array<std::byte, 5> bytes = kBytes;
  wipe(bytes);
  EXPECT_EQ(bytes, (std::array<std::byte, 5>{}));
  wipe({});
}

TEST(SecretTest, ImpossibleSizesAreOutOfMemory) {
  const Result<Secret> secret = Secret::allocate(std::numeric_limits<std::size_t>::max() / 2);
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().code, Errc::out_of_memory);
}

TEST(SecretTest, GuardPageStopsOverruns) {
  Secret secret = Secret::copy_of(kBytes).value();
  volatile std::byte* end = secret.mutable_bytes().data() + secret.size();
  EXPECT_DEATH({ *end = std::byte{1}; }, "");
}

// The sanitizers replace mlock(2) by a function that does nothing and succeeds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

TEST(SecretTest, TellsWhenMemoryCouldNotBeLocked) {
  if (kSanitized || ::geteuid() != 0) {
    GTEST_SKIP() << "needs root to make sure of the limits, and the real mlock";
  }
  // Root is not bound by the limit: become somebody else, in a process of its own.
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    const bool set_up = ::setrlimit(RLIMIT_MEMLOCK, &none) == 0 && ::setuid(65534) == 0;
    const bool before = Secret::all_locked();
    const bool made = Secret::copy_of(kBytes).has_value();
    ::_exit(set_up && before && made && !Secret::all_locked() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(KeyDigestTest, TellsKeysApart) {
  std::array<std::byte, 64> bytes{};
  bytes[5] = std::byte{7};
  const Secret key = Secret::copy_of(bytes).value();
  const KeyDigest digest(key.bytes());
  EXPECT_EQ(digest.key_size_bytes(), 64U);
  EXPECT_TRUE(digest.matches(key.bytes()));
  EXPECT_FALSE(digest.matches(key.bytes().first(63)));
  EXPECT_FALSE(digest.matches({}));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto other = bytes;
    other[at] ^= std::byte{0x80};
    EXPECT_FALSE(digest.matches(other)) << at;
  }
  EXPECT_FALSE(KeyDigest().matches(key.bytes()));
  EXPECT_FALSE(KeyDigest().matches({}));
}

// Where a handler ran last.
std::atomic<const void*> handler_frame{nullptr};

TEST(SignalStackTest, HandlersRunThereAndTheOldOneComesBack) {
  struct sigaction action = {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = [](int) { handler_frame = __builtin_frame_address(0); };
  struct sigaction before = {};
  ASSERT_EQ(::sigaction(SIGUSR2, &action, &before), 0);
  std::thread([] {
    stack_t first = {};
    stack_t own = {};
    stack_t last = {};
    ::sigaltstack(nullptr, &first);
    {
      const SignalStack stack;
      ::sigaltstack(nullptr, &own);
      ::raise(SIGUSR2);
    }
    ::sigaltstack(nullptr, &last);
    const auto* const base = static_cast<const std::byte*>(own.ss_sp);
    const auto* const frame = static_cast<const std::byte*>(handler_frame.load());
    EXPECT_TRUE(frame >= base && frame < base + own.ss_size);
    EXPECT_EQ(last.ss_sp, first.ss_sp);
    EXPECT_EQ(last.ss_flags, first.ss_flags);
  }).join();
  ::sigaction(SIGUSR2, &before, nullptr);
}

}  // namespace
}  // namespace cryptimg
