// SPDX-License-Identifier: GPL-3.0-or-later
//
// WorkerPool: threads that help a calling thread with a job it is already doing. The caller never
// waits for them: it offers the job, works on it itself until nothing of it is left to take, and
// leaves. Whoever leaves last, the caller or a worker, finishes the job; by then no other thread
// knows of it, so finishing may free it.
//
// Jobs are linked into the pool's list, not copied: offering never allocates and cannot fail. The
// list is as long as there are callers. The mutex is held for list operations only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/result.h"

namespace cryptimg {

class WorkerPool {
 public:
  // What is shared between a caller and its helpers. Derive from it; the pool links and counts.
  // Owned by the caller until offer(), and by whoever finishes it thereafter.
  class Job {
   private:
    friend class WorkerPool;
    Job* previous_ = nullptr;         // guarded by the pool's mutex_
    Job* next_ = nullptr;             // guarded by the pool's mutex_
    std::uint32_t participants_ = 0;  // guarded by the pool's mutex_
    bool listed_ = false;             // guarded by the pool's mutex_
  };

  // Who knows what the jobs are. Called on the workers' threads, never with the mutex held.
  class Handler {
   public:
    // Takes parts of the job and does them until none is left to take. `worker` is the thread's
    // index, below size(). Several threads do this with one job at once.
    virtual void work(Job& job, unsigned worker) noexcept = 0;
    // Nobody works on the job any more. What every participant wrote is visible.
    virtual void finish(Job& job) noexcept = 0;

   protected:
    ~Handler() = default;
  };

  // Starts `count` threads named cryptimg-wN with all signals blocked. thread_error() where the
  // system refuses one. `handler` must outlive the pool.
  static Result<std::unique_ptr<WorkerPool>> create(unsigned count, Handler& handler);
  // Joins the threads. REQUIRES: every job was left by its caller; those still with a worker are
  // finished first.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(threads_.size()); }

  // Lets up to all workers join `job`, and wakes at most `helpers` idle ones. The caller is a
  // participant from here on, and has to leave().
  void offer(Job& job, std::uint64_t helpers) noexcept;
  // The caller found nothing more to take. True: it was the last, and has to finish the job. False:
  // a worker will; the job may already be gone.
  [[nodiscard]] bool leave(Job& job) noexcept;

 private:
  explicit WorkerPool(Handler& handler) : handler_(handler) {}

  void run(unsigned worker) noexcept;
  // Both: mutex_ is held.
  void link(Job& job) noexcept;
  bool unlink_and_leave(Job& job) noexcept;

  Handler& handler_;
  std::vector<std::thread> threads_;  // constant after create()

  std::mutex mutex_;
  std::condition_variable wake_;
  Job* first_ = nullptr;  // guarded by mutex_: jobs that may have parts left, in order of arrival
  Job* last_ = nullptr;   // guarded by mutex_
  unsigned idle_ = 0;     // guarded by mutex_: threads that wait
  bool stop_ = false;     // guarded by mutex_
};

}  // namespace cryptimg
