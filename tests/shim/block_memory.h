// Shared memory of the running block: exact sizes and red zones for ASan, fresh and filled for each
// block.
#pragma once

#include <cstddef>
#include <vector>

namespace kvscope::shim {

inline constexpr std::size_t kMostStaticBytes = std::size_t{48} << 10;

class BlockMemory {
 public:
  void start_block(std::size_t dynamic_bytes, int fill);
  // The block's array of this key, made at the first call; nullptr beyond the limit. Called on
  // fibers: no heap, no calls that a sanitizer would see.
  void* array(const void* key, std::size_t bytes);
  char* dynamic() { return dynamic_; }
  std::size_t dynamic_bytes() const { return dynamic_bytes_; }
  std::size_t static_bytes() const { return static_bytes_; }  // without the red zones
  // Memory of earlier blocks, too: addresses that a later block reused would look like races.
  void free_all();

 private:
  struct Array {
    const void* key;
    void* p;
  };
  static constexpr int kMostArrays = 64;

  char* filled(std::size_t bytes, int fill);

  char* dynamic_ = nullptr;
  std::size_t dynamic_bytes_ = 0;
  char* static_ = nullptr;
  std::size_t static_used_ = 0;
  std::size_t static_bytes_ = 0;
  Array arrays_[kMostArrays] = {};
  int n_arrays_ = 0;
  std::vector<void*> blocks_;
};

}  // namespace kvscope::shim
