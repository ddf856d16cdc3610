// Which backend a command computes on: what --backend and --device say, and what is there.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/backend/cuda/cuda_backend.h"
#include "runner/base/dtype.h"
#include "runner/model/config.h"

namespace kvscope {

struct BackendOptions {
  std::string backend = "cpu";  // cpu | cuda | auto
  std::optional<int> device;    // of cuda; nothing: the first that can be used
};

// What is to fit into a device's memory.
struct ModelNeed {
  ModelConfig config;
  DType dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  bool kv_follows = false;  // kv_dtype is what dtype is, not an option of its own
};

// Tokens of the prompt that must fit beside the weights: a short one, as what does not even hold
// this cannot be used.
inline constexpr int kLeastPromptTokens = 1024;

// Nothing if weights and one prompt fit into the device's free memory, else one line: what they
// take, what is there, and what would fit. devices: all of the machine.
std::optional<std::string> memory_shortage(const ModelNeed& need, const CudaDevice& device,
                                           std::span<const CudaDevice> devices);

struct CudaDevices {
  std::vector<CudaDevice> all;
  std::string why_none;  // one line, where there are none
};
CudaDevices find_devices(const CudaSupport& cuda);

struct BackendChoice {
  std::optional<CudaDevice> device;  // nothing: the CPU
  std::string note;                  // what `auto` chose and why, one line; else empty
};

// Throws UsageError: built without CUDA, no driver, no device, one that cannot be used or whose
// memory does not suffice, --device without cuda. `auto` never throws for what is not there.
BackendChoice choose_backend(const BackendOptions& options, const CudaSupport& cuda,
                             const ModelNeed& need);

// threads: of the CPU.
std::unique_ptr<Backend> make_backend(const BackendChoice& choice, const CudaSupport& cuda,
                                      int threads);

}  // namespace kvscope
