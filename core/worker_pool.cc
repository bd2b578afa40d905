// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/worker_pool.h"

#include <string>
#include <system_error>

#include <pthread.h>

#include "core/mapped_file.h"
#include "core/signal_stack.h"
#include "core/thread_error.h"

namespace cryptimg {
Result<std::unique_ptr<WorkerPool>> WorkerPool::create(unsigned count, Handler& handler) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool(handler));
  pool->threads_.reserve(count);
  try {
    for (unsigned worker = 0; worker < count; ++worker) {
      pool->threads_.emplace_back([raw = pool.get(), worker] { raw->run(worker); });
    }
  } catch (const std::system_error& error) {
    return tl::unexpected(
        thread_error("cannot start " + std::to_string(count) + " worker threads", error));
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void WorkerPool::offer(Job& job, std::uint64_t helpers) noexcept {
  std::uint64_t to_wake = 0;
  {
    const std::lock_guard lock(mutex_);
    job.participants_ = 1;
    link(job);
    to_wake = helpers < idle_ ? helpers : idle_;
  }
  for (; to_wake > 0; --to_wake) {
    wake_.notify_one();
  }
}

bool WorkerPool::leave(Job& job) noexcept {
  const std::lock_guard lock(mutex_);
  return unlink_and_leave(job);
}

void WorkerPool::run(unsigned worker) noexcept {
  // The kernel takes 15 characters.
  ::pthread_setname_np(::pthread_self(), ("cryptimg-w" + std::to_string(worker % 100000)).c_str());
  block_signals();
  const SignalStack signal_stack;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (first_ != nullptr) {
      Job& job = *first_;
      ++job.participants_;
      lock.unlock();
      handler_.work(job, worker);
      lock.lock();
      if (unlink_and_leave(job)) {
        lock.unlock();
        handler_.finish(job);
        lock.lock();
      }
    } else if (stop_) {
      return;
    } else {
      ++idle_;
      wake_.wait(lock);
      --idle_;
    }
  }
}

void WorkerPool::link(Job& job) noexcept {
  job.previous_ = last_;
  job.next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = &job;
  last_ = &job;
  job.listed_ = true;
}

// A participant leaves only when there is nothing more to take, so the job need not be listed any
// longer, whoever of them comes first.
bool WorkerPool::unlink_and_leave(Job& job) noexcept {
  if (job.listed_) {
    (job.previous_ == nullptr ? first_ : job.previous_->next_) = job.next_;
    (job.next_ == nullptr ? last_ : job.next_->previous_) = job.previous_;
    job.listed_ = false;
  }
  --job.participants_;
  return job.participants_ == 0;
}

}  // namespace cryptimg
