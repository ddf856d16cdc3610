#include "tests/shim/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/shim/engine_state.h"
#include "tests/shim/machine.h"
#include "tests/shim/sanitizer_hooks.h"

namespace kvscope::shim {
namespace {

void start_fiber() {
  enter_fiber();
  engine().run_threads();
}

Config config_from_environment() {
  const auto value = [](const char* name) {
    const char* found = std::getenv(name);
    return std::string(found != nullptr ? found : "");
  };
  Config config;
  if (value("SHIM_ORDER") == "reverse") config.order = Order::kReverse;
  if (value("SHIM_ORDER") == "random") config.order = Order::kRandom;
  if (const std::string seed = value("SHIM_SEED"); !seed.empty()) config.seed = std::stoull(seed);
  if (const std::string fill = value("SHIM_FILL"); !fill.empty())
    config.fill = std::stoi(fill, nullptr, 0);
  config.lazy_streams = value("SHIM_STREAMS") == "lazy";
  config.block_races = value("SHIM_BLOCK_RACES") != "0";
  return config;
}

}  // namespace

Config& config() {
  static Config one = config_from_environment();
  return one;
}

Statistics& statistics() {
  static Statistics one{};
  return one;
}

Engine& engine() {
  static Engine one;
  return one;
}

void check_launch(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const std::uint64_t n_threads = std::uint64_t{block.x} * block.y * block.z;
  if (n_threads == 0 || n_threads > kMostThreads || block.z > 64)
    fail("block of %u × %u × %u threads", block.x, block.y, block.z);
  if (std::uint64_t{grid.x} * grid.y * grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 ||
      grid.z > 65535)
    fail("grid of %u × %u × %u blocks", grid.x, grid.y, grid.z);
  if (shared_bytes > most_shared_bytes()) fail("%zu bytes of shared memory", shared_bytes);
}

void Engine::run(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*),
                 void* context) {
  const std::lock_guard lock(one_launch_);
  if (current_ != &host_) shim::fail("a kernel launches a kernel");
  host_.fiber = host_thread();
  n_threads_ = block.x * block.y * block.z;
  body_ = body;
  context_ = context;
  gridDim = grid;
  blockDim = block;
  schedule_.seed(config().seed);
  std::vector<std::uint64_t> blocks(std::uint64_t{grid.x} * grid.y * grid.z);
  std::iota(blocks.begin(), blocks.end(), std::uint64_t{0});
  if (config().order == Order::kReverse) std::reverse(blocks.begin(), blocks.end());
  if (config().order == Order::kRandom) {
    for (std::size_t i = blocks.size(); i > 1; --i)
      std::swap(blocks[i - 1], blocks[schedule_.draw(unsigned(i))]);
  }
  // A fiber that is used again orders the blocks that it runs, as nothing on a device does.
  const bool fresh_fibers = watched_by_tsan() && config().block_races;
  ++statistics().launches;
  for (const std::uint64_t b : blocks) {
    start_block(b, shared_bytes);
    run_next();  // comes back when the last thread has exited, or one has failed
    const bool failed = std::exchange(failed_, false);
    if (failed) acquire_waits();
    if (!fresh_fibers || failed || b == blocks.back()) {
      acquire(&exit_token_);
      memory_.free_all();
    }
    const std::string message = failed ? failure_ + where_threads_are() : "";
    if (fresh_fibers || failed) drop_fibers();
    if (failed) throw Error(message);
  }
}

void Engine::start_block(std::uint64_t block, std::size_t shared_bytes) {
  ++statistics().blocks;
  blockIdx = {unsigned(block % gridDim.x), unsigned(block / gridDim.x % gridDim.y),
              unsigned(block / gridDim.x / gridDim.y)};
  memory_.start_block(shared_bytes, config().fill);
  n_exited_ = generation_ = 0;
  for (Barrier& barrier : barriers_) barrier.arrived = 0;
  for (; n_fibers_ < n_threads_; ++n_fibers_) {
    threads_[n_fibers_].fiber = make_fiber(&start_fiber, n_fibers_);
    threads_[n_fibers_].id = n_fibers_;
  }
  schedule_.start_block(n_threads_, config().order);
  for (unsigned i = 0; i < n_threads_; ++i) {
    threads_[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    threads_[i].place = {};
    make_ready(threads_[i]);
  }
  for (unsigned w = 0; w * 32 < n_threads_; ++w) {
    const unsigned n_lanes = std::min(32U, n_threads_ - w * 32);
    warps_[w].present = n_lanes == 32 ? ~0U : (1U << n_lanes) - 1;
    warps_[w].exited = 0;
    warps_[w].n_meetings = 0;
  }
  release(&start_token_);
}

void Engine::run_threads() {
  for (;;) {  // one thread of each block
    acquire(&start_token_);
    body_(context_);
    exit_thread();
  }
}

// What threads that will never exit have done is over all the same: for ThreadSanitizer, all that
// came before the places where they wait.
void Engine::acquire_waits() {
  for (Barrier& barrier : barriers_) acquire(&barrier.order_token);
  for (unsigned w = 0; w * 32 < n_threads_; ++w) {
    for (int i = 0; i < warps_[w].n_meetings; ++i) acquire(&warps_[w].meetings[i].order_token);
  }
}

void Engine::drop_fibers() {
  for (unsigned i = 0; i < n_fibers_; ++i) destroy(threads_[i].fiber);
  n_fibers_ = 0;
}

std::string Engine::where_threads_are() const {
  std::vector<std::pair<std::string, std::vector<unsigned>>> groups;
  for (unsigned i = 0; i < n_threads_; ++i) {
    const Thread& thread = threads_[i];
    const bool has_place = thread.place.line != 0;
    std::string what = has_place ? "running, last seen" : "running, not past a barrier";
    if (thread.state == State::kExited) what = "exited";
    if (thread.state == State::kAtBarrier) what = "at __syncthreads";
    if (thread.state == State::kAtWarpOperation) what = "at a warp operation";
    if (has_place && thread.state != State::kExited) {
      what += std::string(" ") + file_name(thread.place) + ":" + std::to_string(thread.place.line);
    }
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == what; });
    if (group == groups.end()) group = groups.insert(groups.end(), {what, {}});
    group->second.push_back(i);
  }
  std::string text;
  for (const auto& [what, threads] : groups) {
    text += "\n  " + std::to_string(threads.size()) + " threads (first " +
            std::to_string(threads[0]) + "): " + what;
  }
  return text;
}

void* Engine::shared_array(const void* key, std::size_t bytes) {
  void* p = memory_.array(key, bytes);
  if (p == nullptr) shim::fail("more than 48 KiB of static shared memory");
  if (memory_.static_bytes() + memory_.dynamic_bytes() > most_shared_bytes())
    shim::fail("static and dynamic shared memory do not fit together");
  return p;
}

void Engine::fail(const char* format, std::va_list arguments) {
  int n = 0;
  if (current_ != &host_) {
    n = std::snprintf(failure_, sizeof failure_, "block (%u,%u,%u) thread %u: ", blockIdx.x,
                      blockIdx.y, blockIdx.z, current_->id);
  }
  std::vsnprintf(failure_ + n, sizeof failure_ - std::size_t(n), format, arguments);
  if (current_ == &host_) throw Error(failure_);
  failed_ = true;
  release(&exit_token_);
  switch_to(host_);
  std::abort();  // never: run() throws all fibers away
}

void run(dim3 grid, dim3 block, std::size_t shared_bytes, void (*body)(void*), void* context) {
  engine().run(grid, block, shared_bytes, body, context);
}

void fail(const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  engine().fail(format, arguments);
}

unsigned lane() { return engine().lane(); }
void* shared_array(const void* key, std::size_t bytes) { return engine().shared_array(key, bytes); }
unsigned char* dynamic_shared() {
  return reinterpret_cast<unsigned char*>(engine().dynamic_shared());
}

}  // namespace kvscope::shim
