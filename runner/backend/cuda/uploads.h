// Small tables (jobs, page tables, ids) on their way to the device. A batch collects what one
// operation needs and hands out device addresses at once, so that tables can point to each other;
// send() copies everything in one go per block. Blocks are reused when the operations that read
// them are done.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "gpu_runtime.h"
#include "runner/backend/cuda/device_buffer.h"

namespace kvscope::cuda {

class Uploads {
  struct Block;

 public:
  Uploads(UnifiedMemory& account, cudaStream_t stream);
  ~Uploads();

  class Batch {
   public:
    explicit Batch(Uploads& uploads) : uploads_(uploads) {}
    ~Batch();  // the operations on `stream` so far are the last that read it
    Batch(const Batch&) = delete;

    // Where the values will be on the device after send().
    template <class T>
    const T* add(std::span<const T> values) {
      const Place place = take(values.size_bytes());
      if (!values.empty()) std::memcpy(place.host, values.data(), values.size_bytes());
      return reinterpret_cast<const T*>(place.device);
    }
    template <class T>
    const T* add(const std::vector<T>& values) {
      return add(std::span<const T>(values));
    }
    void send();

   private:
    struct Place {
      std::byte* host;
      std::byte* device;
    };
    Place take(std::size_t bytes);

    Uploads& uploads_;
    std::vector<std::unique_ptr<Block>> blocks_;
  };

 private:
  struct Block {
    Block(UnifiedMemory& account, std::size_t bytes);
    ~Block();
    std::byte* host = nullptr;  // pinned
    DeviceBuffer device;
    std::size_t size = 0;
    std::size_t used = 0;
    std::size_t sent = 0;
    cudaEvent_t done = nullptr;
  };

  std::unique_ptr<Block> block(std::size_t bytes);

  UnifiedMemory& account_;
  cudaStream_t stream_;
  std::deque<std::unique_ptr<Block>> in_use_;  // read by operations under way, oldest first
  std::vector<std::unique_ptr<Block>> free_;
};

}  // namespace kvscope::cuda
