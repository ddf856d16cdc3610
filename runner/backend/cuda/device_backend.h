// The CUDA backend's own view of itself; cuda_backend.h is the outside's.
#pragma once

#include <string>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/cpu/unit_scan.h"
#include "runner/backend/cuda/cuda_backend.h"
#include "runner/backend/cuda/cuda_matrix.h"
#include "runner/backend/cuda/pages.h"
#include "runner/backend/cuda/prompt_attention.h"
#include "runner/backend/cuda/scan.h"
#include "runner/backend/cuda/uploads.h"

namespace kvscope::cuda {

class Stream {  // of operations in order
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class DeviceBackend final : public Backend {
 public:
  // device: checked by the caller. memory_bytes: most of it to use.
  DeviceBackend(const CudaDevice& device, std::int64_t memory_bytes);

  std::string_view name() const override { return "cuda"; }
  std::string description() const override { return description_; }
  int n_threads() const override { return 1; }
  Memory* memory() const override { return &memory_; }
  void sync() override { memory_.wait(); }
  void release_scratch() override;
  std::optional<DeviceMemory> device_memory() const override;

  std::unique_ptr<PackedMatrix> pack(const ReadRows& rows, int n_out, int n_in,
                                     DType dtype) override;
  std::unique_ptr<EmbeddingTable> pack_embedding(const ReadRows& rows, int n_vocab, int d_model,
                                                 DType dtype) override;

  // device_backend.cpp
  void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
             std::span<float> out) override;
  void matmul(const PackedMatrix& w, std::span<const float> x, int rows, RowKind kind,
              std::span<float> y) override;
  void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, int rows,
                std::span<float> y) override;
  void swiglu(std::span<const float> gate_up, int rows, int d_ff, std::span<float> y) override;
  void add(std::span<const float> x, std::span<float> y) override;
  void copy_rows(std::span<const float> x, int width, std::span<const std::int32_t> rows,
                 std::span<float> out) override;
  void log_sum_exp(std::span<const float> logits, int rows, std::span<double> lse) override;
  void greedy(std::span<const float> logits, int rows, std::span<std::int32_t> ids) override;
  void pick_logits(std::span<const float> logits, int n_vocab, std::span<const LogitPlace> places,
                   std::span<float> out) override;
  void compare_logits(std::span<const LogitPair> pairs, std::span<LogitComparison> out) override;

  // prompt_operations.cpp
  void attend_dense(const AttentionShape& shape, const RopeTable& rope,
                    const DenseJob& job) override;
  void attend_sparse(const AttentionShape& shape, const RopeTable& rope,
                     const SparseJob& job) override;
  void column_weights(const AttentionShape& shape, const RopeTable& rope,
                      const ColumnWeightsJob& job) override;
  void attention_rows(const AttentionShape& shape, const RopeTable& rope,
                      const AttentionRowsJob& job) override;
  void gather(const AttentionShape& shape, const RopeTable& rope,
              std::span<const GatherJob> jobs) override;

  // scan_operations.cpp
  void scan(const AttentionShape& shape, const RopeTable& rope,
            std::span<const ScanJob> jobs) override;

 private:
  cudaStream_t stream() const { return stream_.get(); }
  // p, checked to lie in memory(): the operation's own error otherwise (std::logic_error).
  template <class T>
  T* own(T* p, std::size_t n, const char* what) const {
    require_own(p, n * sizeof(T), what);
    return p;
  }
  void require_own(const void* p, std::size_t bytes, const char* what) const;
  void launched() { memory_.started(); }
  // Copies results to the host, which waits for them.
  template <class T>
  void download(const T* from, std::span<T> to) {
    download_bytes(from, to.data(), to.size_bytes());
  }
  void download_bytes(const void* from, void* to, std::size_t bytes);
  RopeRows rope_rows(const RopeTable& rope) const;

  // Device addresses of a cache's pages that hold its first n_slots.
  std::byte* const* pages_of(const HeadCache& head, int n_slots, Uploads::Batch& batch);
  const HeadSlots* head_slots(const HeadCache* heads, int n, Uploads::Batch& batch);
  // Queries of rows first_row … of qkv, row r turned to row_0_angle + r and scaled:
  // [n_rows][n_heads][head_dim] in queries_.
  const float* turned_queries(const AttentionShape& shape, const RopeTable& rope, const float* qkv,
                              int first_row, int n_rows, SlotFormat format, int row_0_angle);

  void scan_by_rule(const AttentionShape& shape, const RopeTable& rope,
                    std::span<const ScanJob* const> jobs);
  void scan_by_host(const AttentionShape& shape, const RopeTable& rope,
                    std::span<const ScanJob* const> jobs);

  Stream stream_;
  mutable UnifiedMemory memory_;
  std::string description_;
  std::int64_t free_before_ = 0;
  Uploads uploads_;
  Products products_;
  DeviceBuffer queries_;
  DeviceBuffer results_;   // of operations whose results are the host's
  DeviceBuffer scratch_;   // logits and victims of scans
  DeviceBuffer partials_;  // of attention spread over blocks
};

}  // namespace kvscope::cuda
