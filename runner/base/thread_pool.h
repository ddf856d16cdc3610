// The only threads of the process that compute. Work is cut into tasks whose results do not depend
// on which thread runs them, so any number of threads gives the same bits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace kvscope {

class ThreadPool {
 public:
  // n_threads counts the calling thread; 0 = all processors this process may use. Throws UsageError
  // above 1024.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;

  // Runs task(i, worker) for i in [0, n), each once; worker in [0, size()). Returns when all are
  // done. The first exception a task throws is rethrown here after the others ended. Not
  // re-entrant: a task must not call parallel_for.
  void parallel_for(std::size_t n, const std::function<void(std::size_t i, int worker)>& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvscope
