// Streams and events. Work is done when it is put into a stream, or, with lazy streams
// (engine.h), when somebody waits for it.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

struct CUstream_st {
  bool waits_for_default = true;  // the default stream and this one wait for each other
  std::deque<std::function<void()>> work;
  std::uint64_t n_put = 0;   // works ever put in
  std::uint64_t n_done = 0;  // and done
};

struct CUevent_st {
  CUstream_st* stream = nullptr;  // where it was recorded last
  std::uint64_t after = 0;        // done when the stream has done this many works
  std::chrono::steady_clock::time_point time;
};

namespace kvscope::shim {

void enqueue(cudaStream_t stream, std::function<void()> work);
void finish(cudaStream_t stream);  // and what it waits for
void finish_all();

}  // namespace kvscope::shim
