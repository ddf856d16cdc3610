#include "runner/backend/cuda/device_backend.h"

#include <cassert>
#include <stdexcept>
#include <utility>

#include "runner/backend/cuda/elementwise.h"
#include "runner/backend/cuda/logits.h"

namespace kvscope::cuda {
namespace {

std::string described(const CudaDevice& device) {
  return "cuda, device " + std::to_string(device.index) + " (" + device.name +
         ", compute capability " + std::to_string(device.compute_capability / 10) + "." +
         std::to_string(device.compute_capability % 10) + "): matrices by cuBLAS, own kernels";
}

std::int64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  gpu_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::int64_t(free);
}

}  // namespace

Stream::Stream(int device) {
  gpu_check(cudaSetDevice(device), "cudaSetDevice");
  gpu_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
            "cudaStreamCreateWithFlags");
}
Stream::~Stream() { cudaStreamDestroy(stream_); }

DeviceBackend::DeviceBackend(const CudaDevice& device, std::int64_t memory_bytes)
    : stream_(device.index),
      memory_(device.index, stream_.get(), memory_bytes),
      description_(described(device)),
      free_before_(free_bytes()),
      uploads_(memory_, stream_.get()),
      products_(memory_, stream_.get()),
      queries_(memory_),
      results_(memory_),
      scratch_(memory_),
      partials_(memory_) {}

std::optional<DeviceMemory> DeviceBackend::device_memory() const {
  return DeviceMemory{memory_.allocated_bytes(), memory_.peak_bytes(), free_before_ - free_bytes()};
}

void DeviceBackend::release_scratch() {
  for (DeviceBuffer* buffer : {&queries_, &results_, &scratch_, &partials_}) buffer->release();
  products_.release();
}

void DeviceBackend::require_own(const void* p, std::size_t bytes, const char* what) const {
  if (!memory_.owns(p, bytes))
    throw std::logic_error(std::string(what) + " does not lie in the backend's memory");
}

void DeviceBackend::download_bytes(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) {
    gpu_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()),
              "cudaMemcpyAsync");
  }
  launched();
  sync();
}

RopeRows DeviceBackend::rope_rows(const RopeTable& rope) const {
  return {own(rope.cos.data(), rope.cos.size(), "cos"),
          own(rope.sin.data(), rope.sin.size(), "sin")};
}

std::unique_ptr<PackedMatrix> DeviceBackend::pack(const ReadRows& rows, int n_out, int n_in,
                                                  DType dtype) {
  return std::make_unique<CudaMatrix>(rows, n_out, n_in, dtype, memory_, stream());
}

std::unique_ptr<EmbeddingTable> DeviceBackend::pack_embedding(const ReadRows& rows, int n_vocab,
                                                              int d_model, DType dtype) {
  return std::make_unique<CudaEmbedding>(rows, n_vocab, d_model, dtype, memory_, stream());
}

void DeviceBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                          std::span<float> out) {
  const CudaMatrix& own_table = static_cast<const CudaEmbedding&>(table).table();
  Uploads::Batch batch(uploads_);
  const std::int32_t* on_device = batch.add(ids);
  batch.send();
  cuda::embed(own_table.data(), own_table.dtype(), own_table.n_in(), on_device, int(ids.size()),
              own(out.data(), out.size(), "rows"), stream());
  launched();
}

void DeviceBackend::matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
                           std::span<float> y) {
  const auto& matrix = static_cast<const CudaMatrix&>(w);
  assert(x.size() >= std::size_t(rows) * w.n_in() && y.size() >= std::size_t(rows) * w.n_out());
  launched();  // before anything can throw between two launches
  products_.multiply(matrix, own(x.data(), x.size(), "rows"), rows, kind,
                     own(y.data(), y.size(), "products"));
  launched();
}

void DeviceBackend::rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
                             int rows, std::span<float> y) {
  cuda::rms_norm(own(x.data(), x.size(), "rows"), own(weight.data(), weight.size(), "norm weights"),
                 eps, rows, int(weight.size()), own(y.data(), y.size(), "rows"), stream());
  launched();
}

void DeviceBackend::swiglu(std::span<const float> gate_up, int rows, int d_ff, std::span<float> y) {
  cuda::swiglu(own(gate_up.data(), gate_up.size(), "rows"), rows, d_ff,
               own(y.data(), y.size(), "rows"), stream());
  launched();
}

void DeviceBackend::add(std::span<const float> x, std::span<float> y) {
  cuda::add(own(x.data(), x.size(), "rows"), x.size(), own(y.data(), y.size(), "rows"), stream());
  launched();
}

void DeviceBackend::copy_rows(std::span<const float> x, int width,
                              std::span<const std::int32_t> rows, std::span<float> out) {
  Uploads::Batch batch(uploads_);
  const std::int32_t* on_device = batch.add(rows);
  batch.send();
  cuda::copy_rows(own(x.data(), x.size(), "rows"), width, on_device, int(rows.size()),
                  own(out.data(), out.size(), "rows"), stream());
  launched();
}

void DeviceBackend::log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) {
  if (rows == 0) return;
  auto* found = results_.get<double>(rows);
  cuda::log_sum_exp(own(logits.data(), logits.size(), "logits"), rows, int(logits.size() / rows),
                    found, stream());
  download(found, lse.first(rows));
}

void DeviceBackend::greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) {
  if (rows == 0) return;
  auto* found = results_.get<std::int32_t>(rows);
  cuda::greedy(own(logits.data(), logits.size(), "logits"), rows, int(logits.size() / rows), found,
               stream());
  download(found, ids.first(rows));
}

void DeviceBackend::pick_logits(std::span<const float> logits, int n_vocab,
                                std::span<const LogitPlace> places, std::span<float> out) {
  if (places.empty()) return;
  std::vector<RowAndId> rows;
  for (const LogitPlace& place : places) rows.push_back({place.row, place.id});
  Uploads::Batch batch(uploads_);
  const RowAndId* on_device = batch.add(rows);
  batch.send();
  auto* found = results_.get<float>(places.size());
  cuda::pick_logits(own(logits.data(), logits.size(), "logits"), n_vocab, on_device,
                    int(places.size()), found, stream());
  download(found, out.first(places.size()));
}

void DeviceBackend::compare_logits(std::span<const LogitPair> pairs,
                                   std::span<LogitComparison> out) {
  if (pairs.empty()) return;
  std::vector<LogitPairRows> rows;
  rows.reserve(pairs.size());
  for (const LogitPair& pair : pairs) {
    rows.push_back({own(pair.full.data(), pair.full.size(), "logits"),
                    own(pair.arm.data(), pair.arm.size(), "logits"), pair.full_lse, pair.arm_lse});
  }
  Uploads::Batch batch(uploads_);
  const LogitPairRows* on_device = batch.add(rows);
  batch.send();
  auto* found = results_.get<LogitComparison>(pairs.size());
  cuda::compare_logits(on_device, int(pairs.size()), int(pairs.front().full.size()), found,
                       stream());
  download(found, out.first(pairs.size()));
}

}  // namespace kvscope::cuda
