#include "runner/engine/forward.h"

#include <algorithm>

namespace kvscope {

namespace {

// Calls body(first, n) for blocks of at most `block` rows.
template <typename Body>
void for_row_blocks(int rows, int block, const Body& body) {
  for (int first = 0; first < rows; first += block) body(first, std::min(block, rows - first));
}

}  // namespace

void Forward::embed(std::span<const std::int32_t> ids, std::span<float> x) {
  backend_.embed(*model_.embedding, ids, x);
}

void Forward::project(int layer, std::span<const float> x, int rows, RowKind kind,
                      std::span<float> qkv) {
  const LayerWeights& w = model_.layers[layer];
  const auto d = std::size_t(model_.config.d_model);
  const std::size_t width = model_.attention_shape().row_floats();
  for_row_blocks(rows, kBlockRows, [&](int first, int n) {
    const std::span<float> normed = normed_.floats(n * d);
    backend_.rms_norm(x.subspan(first * d, n * d), w.attention_norm, model_.config.rms_eps, n,
                      normed);
    backend_.matmul(*w.qkv, normed, n, kind, qkv.subspan(first * width, n * width));
  });
}

void Forward::finish(int layer, std::span<const float> attention, int rows, RowKind kind,
                     std::span<float> x) {
  const LayerWeights& w = model_.layers[layer];
  const ModelConfig& c = model_.config;
  const auto d = std::size_t(c.d_model);
  const auto d_attention = std::size_t(c.n_heads) * c.head_dim;
  const auto d_ff = std::size_t(c.d_ff);
  for_row_blocks(rows, kBlockRows, [&](int first, int n) {
    const std::span<float> normed = normed_.floats(n * d);
    const std::span<float> delta = delta_.floats(n * d);
    const std::span<float> gate_up = gate_up_.floats(2 * n * d_ff);
    const std::span<float> hidden = hidden_.floats(n * d_ff);
    const std::span<float> residual = x.subspan(first * d, n * d);
    backend_.matmul(*w.output, attention.subspan(first * d_attention, n * d_attention), n, kind,
                    delta);
    backend_.add(delta, residual);
    backend_.rms_norm(residual, w.mlp_norm, c.rms_eps, n, normed);
    backend_.matmul(*w.gate_up, normed, n, kind, gate_up);
    backend_.swiglu(gate_up, n, c.d_ff, hidden);
    backend_.matmul(*w.down, hidden, n, kind, delta);
    backend_.add(delta, residual);
  });
}

void Forward::logits(std::span<const float> x, int rows, std::span<float> out) {
  const auto d = std::size_t(model_.config.d_model);
  const auto n_vocab = std::size_t(model_.config.n_vocab);
  for_row_blocks(rows, kBlockRows, [&](int first, int n) {
    const std::span<float> normed = normed_.floats(n * d);
    backend_.rms_norm(x.subspan(first * d, n * d), model_.final_norm, model_.config.rms_eps, n,
                      normed);
    backend_.matmul(*model_.head, normed, n, RowKind::kStep,
                    out.subspan(first * n_vocab, n * n_vocab));
  });
}

}  // namespace kvscope
