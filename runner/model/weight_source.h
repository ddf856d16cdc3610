// Where weights come from, whatever the file format: named tensors, dequantised to float32 on
// demand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/model/config.h"

namespace kvscope {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  // Row-major [n_out][n_in] (n_out = 1 for vectors). Names are those of a `llama` GGUF
  // ("blk.0.attn_q.weight", and what llama.cpp calls the parts that Llama lacks:
  // position_embd, attn_q_norm, post_attention_norm, post_ffw_norm); query and key rows are in its
  // adjacent-pair RoPE order. Biases are as their rows: [1][n_out]. Throws DataError if it is
  // absent, has another shape or holds a non-finite value.
  std::vector<float> read(std::string_view name, int n_out, int n_in) const {
    std::vector<float> values(std::size_t(n_out) * std::size_t(n_in));
    read_rows(name, n_out, n_in, 0, n_out, values.data());
    return values;
  }
  // Rows first … first + n - 1 of it: out [n][n_in]. Any number of threads at once.
  virtual void read_rows(std::string_view name, int n_out, int n_in, int first, int n,
                         float* out) const = 0;
  virtual bool has(std::string_view name) const = 0;
  virtual const std::string& sha256() const = 0;  // of the whole file
};

}  // namespace kvscope
