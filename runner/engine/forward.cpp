#include "runner/engine/forward.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kvscope {

namespace {

// Calls body(first, n) for blocks of at most `block` rows.
template <typename Body>
void for_row_blocks(int rows, int block, const Body& body) {
  for (int first = 0; first < rows; first += block) body(first, std::min(block, rows - first));
}

}  // namespace

void Forward::embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions,
                    std::span<float> x) {
  backend_.embed(*model_.embedding, ids, x);
  if (model_.positions == nullptr) return;
  const auto d = std::size_t(model_.config.d_model);
  for_row_blocks(int(ids.size()), kBlockRows, [&](int first, int n) {
    const std::span<float> delta = delta_.floats(n * d);
    backend_.embed(*model_.positions, positions.subspan(first, n), delta);
    backend_.add(delta, x.subspan(first * d, n * d));
  });
}

void Forward::embed(std::span<const std::int32_t> ids, int first_position, std::span<float> x) {
  std::vector<std::int32_t> positions;
  if (model_.positions != nullptr) {
    positions.resize(ids.size());
    std::iota(positions.begin(), positions.end(), first_position);
  }
  embed(ids, positions, x);
}

void Forward::norm(std::span<const float> x, const NormWeights& w, int rows, std::span<float> y) {
  const float eps = model_.config.rms_eps;
  if (model_.config.form.norm == Norm::kRms) {
    backend_.rms_norm(x, w.weight, eps, rows, y);
  } else {
    backend_.layer_norm(x, w.weight, w.bias, eps, rows, y);
  }
}

void Forward::project(int layer, std::span<const float> x, int rows, RowKind kind,
                      std::span<float> qkv) {
  const LayerWeights& w = model_.layers[layer];
  const auto d = std::size_t(model_.config.d_model);
  const AttentionShape shape = model_.attention_shape(layer);
  const std::size_t width = shape.row_floats();
  for_row_blocks(rows, kBlockRows, [&](int first, int n) {
    const std::span<float> normed = normed_.floats(n * d);
    const std::span<float> out = qkv.subspan(first * width, n * width);
    norm(x.subspan(first * d, n * d), w.attention_norm, n, normed);
    backend_.matmul(*w.qkv, normed, n, kind, out);
    if (!w.qkv_bias.empty()) backend_.add_bias(w.qkv_bias, n, out);
    if (!w.query_norm.empty())
      backend_.norm_heads(shape, w.query_norm, w.key_norm, model_.config.rms_eps, n, out);
  });
}

void Forward::add_result(std::span<float> delta, std::span<const float> bias,
                         std::span<const float> post_norm, int rows, std::span<float> residual) {
  if (!bias.empty()) backend_.add_bias(bias, rows, delta);
  if (!post_norm.empty()) backend_.rms_norm(delta, post_norm, model_.config.rms_eps, rows, delta);
  backend_.add(delta, residual);
}

void Forward::add_mlp(const LayerWeights& w, std::span<const float> normed, int rows, RowKind kind,
                      std::span<float> residual) {
  const ModelConfig& c = model_.config;
  const std::span<float> delta = delta_.floats(rows * std::size_t(c.d_model));
  const std::span<float> gate_up = gate_up_.floats(rows * std::size_t(w.gate_up->n_out()));
  const std::span<float> hidden = hidden_.floats(rows * std::size_t(c.d_ff));
  backend_.matmul(*w.gate_up, normed, rows, kind, gate_up);
  if (!w.gate_up_bias.empty()) backend_.add_bias(w.gate_up_bias, rows, gate_up);
  if (c.form.activation == Activation::kSwiGlu) {
    backend_.swiglu(gate_up, rows, c.d_ff, hidden);
  } else {
    backend_.activate(c.form.activation, gate_up, rows, c.d_ff, hidden);
  }
  backend_.matmul(*w.down, hidden, rows, kind, delta);
  add_result(delta, w.down_bias, w.post_mlp_norm, rows, residual);
}

void Forward::finish(int layer, std::span<const float> attention, int rows, RowKind kind,
                     std::span<float> x) {
  const LayerWeights& w = model_.layers[layer];
  const ModelConfig& c = model_.config;
  const auto d = std::size_t(c.d_model);
  const auto d_attention = std::size_t(c.n_heads) * c.head_dim;
  for_row_blocks(rows, kBlockRows, [&](int first, int n) {
    const std::span<float> normed = normed_.floats(n * d);
    const std::span<float> delta = delta_.floats(n * d);
    const std::span<float> residual = x.subspan(first * d, n * d);
    if (c.form.parallel_mlp) norm(residual, w.mlp_norm, n, normed);
    backend_.matmul(*w.output, attention.subspan(first * d_attention, n * d_attention), n, kind,
                    delta);
    add_result(delta, w.output_bias, w.post_attention_norm, n, residual);
    if (!c.form.parallel_mlp) norm(residual, w.mlp_norm, n, normed);
    add_mlp(w, normed, n, kind, residual);
  });
}

void Forward::logits(std::span<const float> x, int rows, std::span<float> out) {
  const auto d = std::size_t(model_.config.d_model);
  const auto n_vocab = std::size_t(model_.config.n_vocab);
  for_row_blocks(rows, kBlockRows, [&](int first, int n) {
    const std::span<float> normed = normed_.floats(n * d);
    norm(x.subspan(first * d, n * d), model_.final_norm, n, normed);
    backend_.matmul(*model_.head, normed, n, RowKind::kStep,
                    out.subspan(first * n_vocab, n * n_vocab));
  });
}

}  // namespace kvscope
