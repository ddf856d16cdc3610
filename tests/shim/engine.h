// Runs kernels on the CPU: the blocks of a grid one after another, a fiber for each of a block's
// threads, all of them on the host thread that launched. What a device would leave undefined is
// looked for and reported as a shim::Error: divergent barriers, masks that name absent or exited
// lanes, deadlocks, launches beyond the limits. Sanitizers see the rest: every allocation has its
// exact size, and ThreadSanitizer is told of one fiber a CUDA thread, ordered by barriers, warp
// operations and fences alone.
//
// Its state is global, as a kernel's threadIdx is; launches of several host threads take turns.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

// Of the running fiber.
inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;
inline constexpr int warpSize = 32;

namespace kvscope::shim {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Strict priorities: the first thread that can run does so until it must wait, so that one warp
// gets as far ahead of the others as the barriers allow. kRandom: priorities are drawn anew at each
// barrier, warp by warp and lane by lane.
enum class Order { kForward, kReverse, kRandom };

struct Config {
  Order order = Order::kForward;  // SHIM_ORDER=forward|reverse|random
  std::uint64_t seed = 1;         // SHIM_SEED
  int fill = 0xFF;                // SHIM_FILL: byte in fresh device and shared memory (0xFF: NaN)
  // SHIM_STREAMS=eager|lazy. Lazy: nothing that was put into a stream is done before somebody waits
  // for it, so that a host that forgot to wait reads what was there before.
  bool lazy_streams = false;
  bool block_races = true;  // SHIM_BLOCK_RACES=0|1: ThreadSanitizer looks between blocks too (slow)
};
Config& config();  // first read from the environment

struct Statistics {
  std::uint64_t launches;
  std::uint64_t blocks;
  std::uint64_t barriers;
  std::uint64_t warp_operations;
  std::uint64_t switches;
};
Statistics& statistics();

// Where a kernel calls. std::source_location would do, but for the oldest clang in use.
struct SourcePlace {
  const char* file = "";
  unsigned line = 0;
  static constexpr SourcePlace here(const char* file = __builtin_FILE(),
                                    unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

// Runs body(context) once for each thread of the grid.
void run(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* context);
// Throws Error where a device would refuse.
void check_launch(dim3 grid, dim3 block, std::size_t shared_bytes);

// ---- For the vocabulary of kernels; called by fibers.

enum class WarpOperation { kShuffle, kVote, kReduce, kProduct, kSync };
// What a lane brings to a product of matrices.
struct OperandWords {
  std::uint32_t a[4];
  std::uint32_t b[2];
};
// One warp operation: the lanes of `mask` meet, then each reads what it wants of the others.
struct Meeting {
  std::uint64_t values[32];
  OperandWords operands[32];  // kProduct only
  std::uint32_t mask;
  std::uint32_t arrived;
  std::uint32_t readers;  // of a complete meeting, those that have not left
  WarpOperation operation;
  SourcePlace place;
  char order_token;
};
// Returns when all lanes of mask are here.
Meeting& meet(std::uint32_t mask, std::uint64_t value, WarpOperation operation, SourcePlace place);
Meeting& meet(const OperandWords& operands, SourcePlace place);  // of all lanes, for a product
void leave(Meeting& meeting);
// Returns how many of the block's threads came with a predicate that is not 0.
int barrier(int predicate, SourcePlace place);
void fence();
void let_others_run();  // now and then, in random order: other threads come between
unsigned lane();
void* shared_array(const void* key, std::size_t bytes);
unsigned char* dynamic_shared();
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);

}  // namespace kvscope::shim
