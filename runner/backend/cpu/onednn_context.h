// oneDNN's side of OneDnnMatrix: its primitives by block shape, called single-threaded, and what
// our own kernel has to know to give the same bits (few_rows.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <vector>

#include "runner/backend/cpu/few_rows.h"
#include "runner/base/aligned_buffer.h"
#include "runner/base/dtype.h"

namespace kvscope::cpu {

// Rows of one primitive call: few distinct primitives, and a block of x stays in the second-level
// cache.
inline constexpr int kRowBlock = 128;

struct BlockShape {
  int rows;
  int columns;
  int n_in;
  DType dtype;
  auto operator<=>(const BlockShape&) const = default;
};

// What few_rows_* need to know of a packed block of weights.
struct PanelOrder {
  int panel_columns = 0;  // 0: our own kernel cannot stand in for oneDNN's
  int chunk = 0;
  bool operator==(const PanelOrder&) const = default;
};

class OneDnnContext {
 public:
  explicit OneDnnContext(int n_workers);

  dnnl::memory::desc packed_layout(int columns, int n_in, DType dtype);
  // weights: [columns][n_in] row-major → `to`, packed_layout(…).get_size() bytes.
  void pack(int worker, const dnnl::memory::desc& layout, const float* weights, std::byte* to);

  // A primitive and, per worker, the memory objects it is called with (creating them costs as much
  // as a small product).
  struct Block;
  Block& block(const BlockShape& shape, const dnnl::memory::desc& packed);
  // y[rows][columns] = x[rows][n_in] · packed; x of the weights' type. Throws std::runtime_error.
  void multiply(Block& block, int worker, const std::byte* x, const std::byte* packed, float* y);

  PanelOrder panel_order(int columns, int n_in, DType dtype);

  // The primitives know no row stride for their output; rows of a block are copied out of here.
  // Also rows on their way into pack().
  float* output(int worker, std::size_t floats);
  std::uint16_t* rounded(std::size_t elements);  // room for x rounded to bf16

 private:
  PanelOrder find_panel_order(int columns, int n_in, DType dtype);

  int n_workers_;
  dnnl::engine engine_;
  std::vector<dnnl::stream> streams_;   // [worker]
  std::vector<AlignedBuffer> outputs_;  // [worker]
  AlignedBuffer rounded_;
  std::map<BlockShape, std::shared_ptr<Block>> blocks_;
  std::map<std::tuple<int, int, DType>, PanelOrder> orders_;  // by columns, n_in, type
};

}  // namespace kvscope::cpu
