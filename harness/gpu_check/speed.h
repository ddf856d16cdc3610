// How fast a backend is at what an evaluation does, as shares of what its device can do. Times are
// the wall time of calls through the Backend interface: what a stage costs the program.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/json.h"
#include "runner/backend/cuda/cuda_backend.h"
#include "runner/base/dtype.h"
#include "runner/model/config.h"

namespace kvscope {

struct SpeedWork {
  ModelConfig config;      // prefill, decode and sweep, in bf16
  ModelConfig few_layers;  // f32 products and scans
  int prompt_tokens = 8192;
  int answer_tokens = 128;
  std::vector<int> decode_rows = {1, 49};
  std::vector<int> sequences = {8, 32, 64};  // of prompt_tokens each, that one attention call reads
  int few_tokens = 4096;                     // of the work on few_layers
  int scan_budget = 1024;
  bool has_targets = true;
  std::vector<std::string> policies = {"streaming_llm", "h2o", "tova", "snapkv"};
  std::vector<int> permilles = {50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600};
};
// Llama-3-8B's shape, with as many layers as the free memory allows.
SpeedWork speed_work(std::int64_t free_bytes);
SpeedWork tiny_speed_work();

enum class Target { kNone, kAtLeast, kAtMost };

struct SpeedFigure {
  std::string what;
  double value = 0.0;
  std::string unit;
  std::optional<double> share = {};  // of what the device can do
  std::string share_of = {};
  Target target = Target::kNone;  // of the share, or of the value where that is a ratio itself
  double goal = 0.0;

  bool met() const;  // true where there is no target; false for one that could not be measured
};

// Keys and values of one full arm that runs alone, counted three ways.
struct MemoryFigures {
  std::int64_t ledger_bytes = 0;  // the arm's account
  std::int64_t pool_bytes = 0;    // pages that were held at once
  std::optional<DeviceMemory> device;
  bool agree() const { return ledger_bytes == pool_bytes; }
};

struct SpeedReport {
  std::vector<SpeedFigure> figures;
  MemoryFigures memory;
};

// limits: of the device, where they could be measured. progress: called with what begins.
SpeedReport measure_speed(const SpeedWork& work, Backend& backend,
                          const std::optional<CudaLimits>& limits,
                          const std::function<void(const std::string&)>& progress);

std::string speed_text(const SpeedReport& report);
Json speed_json(const SpeedReport& report);

}  // namespace kvscope
