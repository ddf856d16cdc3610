// The engine's inside: threads of the running block, and where they wait.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <mutex>
#include <string>

#include "tests/shim/block_memory.h"
#include "tests/shim/engine.h"
#include "tests/shim/fiber.h"
#include "tests/shim/schedule.h"

namespace kvscope::shim {

enum class State { kReady, kAtBarrier, kAtWarpOperation, kExited };

struct Thread {
  Fiber fiber;
  unsigned id = 0;
  uint3 index = {};
  State state = State::kReady;
  SourcePlace place;  // of its last barrier or warp operation

  unsigned lane() const { return id % 32; }
  std::uint32_t lane_bit() const { return 1U << lane(); }
};

struct Warp {
  std::uint32_t present = 0;
  std::uint32_t exited = 0;
  int n_meetings = 0;  // places used in `meetings`
  Meeting meetings[64];
};

struct Barrier {
  unsigned arrived = 0;
  int predicates = 0;
  SourcePlace place;
  char order_token = 0;
};

const char* file_name(SourcePlace place);  // without its folders
bool same(SourcePlace a, SourcePlace b);

class Engine {
 public:
  // engine.cpp: blocks and their fibers.
  void run(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* context);
  void run_threads();  // a fiber's life
  void* shared_array(const void* key, std::size_t bytes);
  char* dynamic_shared() { return memory_.dynamic(); }
  unsigned lane() const { return current_->lane(); }
  [[noreturn]] void fail(const char* format, std::va_list arguments);

  // synchronisation.cpp: where threads wait for each other.
  // operands: nullptr but for a product.
  Meeting& meet(std::uint32_t mask, std::uint64_t value, WarpOperation operation, SourcePlace place,
                const OperandWords* operands);
  int barrier(int predicate, SourcePlace place);
  void let_others_run();
  void fence();

 private:
  void start_block(std::uint64_t block, std::size_t shared_bytes);
  void run_block();
  void drop_fibers();
  void acquire_waits();
  std::string where_threads_are() const;

  void switch_to(Thread& thread);
  void run_next();
  void exit_thread();
  Meeting& open_meeting(Warp& warp, std::uint32_t mask, WarpOperation operation, SourcePlace place);
  void release_barrier(Barrier& barrier);
  void make_ready(Thread& thread);

  std::recursive_mutex one_launch_;
  Thread host_;  // the launching thread
  Thread* current_ = &host_;
  Thread threads_[kMostThreads];
  unsigned n_fibers_ = 0;  // made so far; later blocks use them again
  unsigned n_threads_ = 0;
  unsigned n_exited_ = 0;
  Schedule schedule_;
  Warp warps_[kMostThreads / 32];
  Barrier barriers_[2];  // by turns: of one that is left, the count is still being read
  unsigned generation_ = 0;
  BlockMemory memory_;
  void (*body_)(void*) = nullptr;
  void* context_ = nullptr;
  char start_token_ = 0;
  char exit_token_ = 0;
  char fence_token_ = 0;
  // A failing fiber is left as it stands, so what it says lies here and not on the heap.
  bool failed_ = false;
  char failure_[512] = "";
};

Engine& engine();

}  // namespace kvscope::shim
