#include "harness/commands/choose_backend.h"

#include <algorithm>

#include "harness/report/table.h"
#include "runner/base/error.h"
#include "runner/model/model_bytes.h"

namespace kvscope {
namespace {

// Activations of a prompt and what the libraries take for themselves.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{256} << 20;

std::string device_text(const CudaDevice& device) {
  return "device " + std::to_string(device.index) + " (" + device.name + ")";
}

std::int64_t prompt_bytes(const ModelNeed& need) {
  const int n_tokens = std::min(need.config.context_length, kLeastPromptTokens);
  return sequence_bytes(need.config, need.kv_dtype, n_tokens) + kWorkspaceBytes;
}

std::int64_t all_bytes(const ModelNeed& need) {
  return weight_bytes(need.config, need.dtype) + prompt_bytes(need);
}

const CudaDevice& named_device(const std::vector<CudaDevice>& all, int index) {
  const auto found = std::ranges::find(all, index, &CudaDevice::index);
  if (found != all.end()) return *found;
  std::string there;
  for (const CudaDevice& device : all) there += (there.empty() ? "" : ", ") + device_text(device);
  throw UsageError("--device " + std::to_string(index) + ": there is no such device, only " +
                   there);
}

// One line where the device's kernels lack what the model's blocks are made of; else empty.
std::string not_on_devices(const ModelConfig& config) {
  if (config.is_plain()) return {};
  return "models of architecture '" + config.architecture +
         "' are not computed on CUDA devices yet, only Llama's kind";
}

BackendChoice choose_cuda(const BackendOptions& options, const CudaDevices& devices,
                          const ModelNeed& need) {
  if (const std::string why = not_on_devices(need.config); !why.empty())
    throw UsageError("--backend cuda: " + why + "; use --backend cpu");
  if (devices.all.empty())
    throw UsageError("--backend cuda: " + devices.why_none + "; use --backend cpu");
  const CudaDevice* device = nullptr;
  if (options.device) {
    device = &named_device(devices.all, *options.device);
  } else {
    const auto usable = std::ranges::find_if(
        devices.all, [](const CudaDevice& one) { return one.unusable.empty(); });
    device = usable != devices.all.end() ? &*usable : &devices.all.front();
  }
  if (!device->unusable.empty())
    throw UsageError("--backend cuda: " + device_text(*device) + ": " + device->unusable);
  if (const auto shortage = memory_shortage(need, *device, devices.all))
    throw UsageError("--backend cuda: " + *shortage);
  return {*device, ""};
}

BackendChoice choose_any(const CudaDevices& devices, const ModelNeed& need) {
  if (const std::string why = not_on_devices(need.config); !why.empty())
    return {std::nullopt, "backend cpu: " + why};
  std::string why = devices.why_none;
  for (const CudaDevice& device : devices.all) {
    std::string reason = device.unusable;
    if (reason.empty()) {
      const auto shortage = memory_shortage(need, device, devices.all);
      if (!shortage) return {device, "backend cuda, " + device_text(device)};
      reason = *shortage;
    }
    if (why.empty()) why = device_text(device) + ": " + reason;  // the first says what to mend
  }
  return {std::nullopt, "backend cpu: " + why};
}

}  // namespace

std::optional<std::string> memory_shortage(const ModelNeed& need, const CudaDevice& device,
                                           std::span<const CudaDevice> devices) {
  if (all_bytes(need) <= device.free_bytes) return std::nullopt;
  std::string text = "weights take " + format_bytes(weight_bytes(need.config, need.dtype)) +
                     " in " + std::string(name_of(need.dtype)) + ", a short prompt " +
                     format_bytes(prompt_bytes(need)) + ", and " + device_text(device) + " has " +
                     format_bytes(device.free_bytes) + " free: ";
  // Another device first: it changes no number.
  for (const CudaDevice& other : devices) {
    if (!other.unusable.empty() || all_bytes(need) > other.free_bytes) continue;
    return text + "--device " + std::to_string(other.index) + " has " +
           format_bytes(other.free_bytes);
  }
  ModelNeed half = need;
  half.dtype = DType::kBF16;
  if (half.kv_follows) half.kv_dtype = half.dtype;
  if (need.dtype == DType::kF32 && all_bytes(half) <= device.free_bytes) {
    return text + "--dtype bf16 takes " + format_bytes(weight_bytes(half.config, half.dtype));
  }
  return text + "use --backend cpu";
}

CudaDevices find_devices(const CudaSupport& cuda) {
  CudaDevices found;
  if (!cuda.is_built) {
    found.why_none = "this program was built without CUDA" +
                     (cuda.description.empty() ? std::string() : " (" + cuda.description + ")");
    return found;
  }
  found.all = cuda.devices(found.why_none);
  if (found.all.empty() && found.why_none.empty()) found.why_none = "there is no CUDA device";
  return found;
}

BackendChoice choose_backend(const BackendOptions& options, const CudaSupport& cuda,
                             const ModelNeed& need) {
  if (options.device && options.backend != "cuda") {
    throw UsageError("--device " + std::to_string(*options.device) +
                     " names a CUDA device: add --backend cuda");
  }
  if (options.backend == "cpu") return {};
  const CudaDevices devices = find_devices(cuda);
  return options.backend == "cuda" ? choose_cuda(options, devices, need)
                                   : choose_any(devices, need);
}

std::unique_ptr<Backend> make_backend(const BackendChoice& choice, const CudaSupport& cuda,
                                      int threads) {
  if (!choice.device) return make_cpu_backend(threads);
  CudaOptions options;
  options.device = choice.device->index;
  return cuda.open(options);
}

}  // namespace kvscope
