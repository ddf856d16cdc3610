// The forward pass around attention, written once above Backend, in the order of the mathematics:
//   x = embed(ids);  per layer: qkv = W_qkv · norm(x);  [attention];  x += W_o · a;  x += W_down ·
//   (silu(gate) ⊙ up)(norm(x)); logits = W_head · norm(x)
// What an architecture adds to that or does otherwise is data: BlockForm, and which vectors of
// LayerWeights are there.
#pragma once

#include <span>

#include "runner/backend/backend.h"
#include "runner/base/scratch.h"
#include "runner/model/model.h"

namespace kvscope {

class Forward {
 public:
  Forward(const Model& model, Backend& backend)
      : model_(model),
        backend_(backend),
        normed_(backend.memory()),
        delta_(backend.memory()),
        gate_up_(backend.memory()),
        hidden_(backend.memory()) {}

  // x: [ids][d_model]. positions: of each id; a first one: of ids that follow each other.
  void embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions,
             std::span<float> x);
  void embed(std::span<const std::int32_t> ids, int first_position, std::span<float> x);
  void project(int layer, std::span<const float> x, int rows, RowKind kind,
               std::span<float> qkv);  // qkv: [rows][row_floats], before RoPE
  void finish(int layer, std::span<const float> attention, int rows, RowKind kind,
              std::span<float> x);  // attention: [rows][n_heads * head_dim]
  void logits(std::span<const float> x, int rows, std::span<float> out);  // out: [rows][n_vocab]

  void release() {  // the scratch buffers
    for (Scratch* buffer : {&normed_, &delta_, &gate_up_, &hidden_}) buffer->release();
  }

 private:
  // Rows that share scratch buffers; a row's bits do not depend on it.
  static constexpr int kBlockRows = 512;

  void norm(std::span<const float> x, const NormWeights& w, int rows, std::span<float> y);
  void add_mlp(const LayerWeights& w, std::span<const float> normed, int rows, RowKind kind,
               std::span<float> residual);
  // residual += norm(delta + bias), either of which may not be there.
  void add_result(std::span<float> delta, std::span<const float> bias,
                  std::span<const float> post_norm, int rows, std::span<float> residual);

  const Model& model_;
  Backend& backend_;
  Scratch normed_;   // [block][d_model]
  Scratch delta_;    // [block][d_model]
  Scratch gate_up_;  // [block][2 * d_ff]
  Scratch hidden_;   // [block][d_ff]
};

}  // namespace kvscope
