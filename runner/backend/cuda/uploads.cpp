#include "runner/backend/cuda/uploads.h"

#include <algorithm>

namespace kvscope::cuda {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kAlignment = 64;

}  // namespace

Uploads::Block::Block(UnifiedMemory& account, std::size_t bytes)
    : device(account, bytes), size(bytes) {
  gpu_check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  void* pinned = nullptr;
  if (const cudaError_t error = cudaMallocHost(&pinned, bytes); error != cudaSuccess) {
    cudaEventDestroy(done);
    gpu_check(error, "cudaMallocHost");
  }
  host = static_cast<std::byte*>(pinned);
}

Uploads::Block::~Block() {
  if (host != nullptr) cudaFreeHost(host);
  if (done != nullptr) cudaEventDestroy(done);
}

Uploads::Uploads(UnifiedMemory& account, cudaStream_t stream)
    : account_(account), stream_(stream) {}

Uploads::~Uploads() { cudaStreamSynchronize(stream_); }

std::unique_ptr<Uploads::Block> Uploads::block(std::size_t bytes) {
  while (!in_use_.empty() && cudaEventQuery(in_use_.front()->done) == cudaSuccess) {
    free_.push_back(std::move(in_use_.front()));
    in_use_.pop_front();
  }
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](const auto& block) { return block->size >= bytes; });
  if (fits == free_.end()) return std::make_unique<Block>(account_, std::max(bytes, kBlockBytes));
  std::unique_ptr<Block> found = std::move(*fits);
  free_.erase(fits);
  found->used = found->sent = 0;
  return found;
}

Uploads::Batch::Place Uploads::Batch::take(std::size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || blocks_.back()->used + bytes > blocks_.back()->size)
    blocks_.push_back(uploads_.block(bytes));
  Block& block = *blocks_.back();
  const Place place{block.host + block.used,
                    static_cast<std::byte*>(block.device.data()) + block.used};
  block.used += bytes;
  return place;
}

void Uploads::Batch::send() {
  for (const auto& block : blocks_) {
    if (block->sent == block->used) continue;
    gpu_check(cudaMemcpyAsync(static_cast<std::byte*>(block->device.data()) + block->sent,
                              block->host + block->sent, block->used - block->sent,
                              cudaMemcpyHostToDevice, uploads_.stream_),
              "cudaMemcpyAsync");
    block->sent = block->used;
  }
  uploads_.account_.started();
}

Uploads::Batch::~Batch() {
  for (auto& block : blocks_) {
    cudaEventRecord(block->done, uploads_.stream_);
    uploads_.in_use_.push_back(std::move(block));
  }
}

}  // namespace kvscope::cuda
