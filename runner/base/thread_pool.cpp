#include "runner/base/thread_pool.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kMaxThreads = 1024;

// A sleeping barrier costs about 3x the decode speed, an endless spin collapses when another
// process runs: spin for about the length of one stage, then sleep.
constexpr std::chrono::microseconds kSpinTime{40};
constexpr int kPausesPerClockRead = 32;

int processors_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, int(std::thread::hardware_concurrency()));
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// oneDNN would start OpenMP threads of its own inside our threads. The setting belongs to the
// calling thread.
void forbid_inner_threads() { omp_set_num_threads(1); }

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;
  std::chrono::microseconds spin_time{};

  // The job. Written by the caller while no index is unclaimed and none is running; read by whoever
  // claimed an index.
  const std::function<void(std::size_t, int)>* task = nullptr;
  std::size_t n = 0;

  alignas(64) std::atomic<std::size_t> unclaimed{0};
  alignas(64) std::atomic<std::size_t> unfinished{0};
  alignas(64) std::atomic<unsigned> epoch{0};  // changes when there may be something to do
  std::atomic<bool> stop{false};

  std::mutex mutex;
  std::condition_variable job_posted;
  std::condition_variable job_done;
  std::atomic<int> sleeping_workers{0};
  std::atomic<bool> caller_sleeps{false};
  std::exception_ptr first_error;  // guarded by mutex

  // A worker that comes late finds nothing to claim; nobody ever waits for a thread that runs no
  // task.
  bool claim(std::size_t& i) {
    std::size_t left = unclaimed.load(std::memory_order_acquire);
    while (left > 0) {
      if (unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
        i = n - left;
        return true;
      }
    }
    return false;
  }

  void run_one(std::size_t i, int worker) {
    try {
      (*task)(i, worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
    }
    if (unfinished.fetch_sub(1) == 1 && caller_sleeps.load()) {
      { const std::lock_guard lock(mutex); }
      job_done.notify_one();
    }
  }

  void work(int worker) {
    std::size_t i = 0;
    while (claim(i)) run_one(i, worker);
  }

  template <class Condition>
  bool spin_until(Condition condition) const {
    if (condition()) return true;
    if (spin_time.count() == 0) return false;
    const auto end = std::chrono::steady_clock::now() + spin_time;
    do {
      for (int k = 0; k < kPausesPerClockRead; ++k) {
        if (condition()) return true;
        pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  void worker_loop(int worker) {
    forbid_inner_threads();
    unsigned seen = 0;
    while (true) {
      const auto posted = [&] { return epoch.load() != seen; };
      if (!spin_until(posted)) {
        std::unique_lock lock(mutex);
        ++sleeping_workers;
        job_posted.wait(lock, posted);
        --sleeping_workers;
      }
      seen = epoch.load();
      if (stop.load()) return;
      work(worker);
    }
  }

  void post() {
    epoch.fetch_add(1);
    if (sleeping_workers.load() > 0) {
      { const std::lock_guard lock(mutex); }
      job_posted.notify_all();
    }
  }

  void wait_until_done() {
    const auto done = [&] { return unfinished.load() == 0; };
    if (spin_until(done)) return;
    std::unique_lock lock(mutex);
    caller_sleeps = true;
    job_done.wait(lock, done);
    caller_sleeps = false;
  }

  void rethrow() {
    std::exception_ptr error;
    {
      const std::lock_guard lock(mutex);
      error = std::exchange(first_error, nullptr);
    }
    if (error) std::rethrow_exception(error);
  }
};

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) {
  if (n_threads < 0 || n_threads > kMaxThreads) {
    throw UsageError("threads: " + std::to_string(n_threads) + " is not in 0.." +
                     std::to_string(kMaxThreads) + "; use 0 for all processors");
  }
  const int processors = processors_of_this_process();
  const int n = n_threads == 0 ? std::min(processors, kMaxThreads) : n_threads;
  state_->spin_time = n > processors ? std::chrono::microseconds{0} : kSpinTime;
  forbid_inner_threads();
  state_->workers.reserve(n - 1);
  for (int worker = 1; worker < n; ++worker) {
    state_->workers.emplace_back([state = state_.get(), worker] { state->worker_loop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop = true;
  state_->post();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadPool::size() const { return int(state_->workers.size()) + 1; }

void ThreadPool::parallel_for(std::size_t n, const std::function<void(std::size_t, int)>& task) {
  if (n == 0) return;
  forbid_inner_threads();  // the caller need not be the thread that made the pool
  state_->task = &task;
  state_->n = n;
  state_->unfinished.store(n);
  state_->unclaimed.store(n, std::memory_order_release);
  if (n > 1 && !state_->workers.empty()) state_->post();
  state_->work(0);
  state_->wait_until_done();
  state_->rethrow();
}

}  // namespace kvscope
