#include "runner/model/random_weights.h"

#include <cmath>
#include <utility>

#include "runner/base/error.h"
#include "runner/base/sha256.h"
#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

float uniform(std::uint64_t bits24) { return float(bits24) * 0x1p-23F - 1.0F; }  // [-1, 1)

}  // namespace

RandomWeights::RandomWeights(ModelConfig config, std::uint64_t seed)
    : config_(std::move(config)), seed_(seed) {
  const ModelConfig& c = config_;
  const int d_query = c.n_heads * c.head_dim;
  const int d_kv = c.n_kv_heads * c.head_dim;
  std::string identity = "random weights 1;" + c.name + ";" + std::to_string(seed);
  for (const int n : {c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim, c.d_model, c.d_ff, c.n_vocab,
                      int(c.tied_head)}) {
    identity += ";" + std::to_string(n);
  }
  sha256_ = sha256_hex(std::string_view(identity));
  add_matrix("token_embd.weight", c.n_vocab, c.d_model, 1.5F);
  for (int layer = 0; layer < c.n_layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    add_norm(block + "attn_norm.weight");
    add_matrix(block + "attn_q.weight", d_query, c.d_model, 1.5F);
    add_matrix(block + "attn_k.weight", d_kv, c.d_model, 1.5F);
    add_matrix(block + "attn_v.weight", d_kv, c.d_model, 1.0F);
    add_matrix(block + "attn_output.weight", c.d_model, d_query, 1.0F);
    add_norm(block + "ffn_norm.weight");
    add_matrix(block + "ffn_gate.weight", c.d_ff, c.d_model, 1.0F);
    add_matrix(block + "ffn_up.weight", c.d_ff, c.d_model, 1.0F);
    add_matrix(block + "ffn_down.weight", c.d_model, c.d_ff, 1.0F);
  }
  add_norm("output_norm.weight");
  if (!c.tied_head) add_matrix("output.weight", c.n_vocab, c.d_model, 1.5F);
}

void RandomWeights::add(const std::string& name, int n_out, int n_in, float offset, float scale) {
  const std::uint64_t key = smix(smix(seed_) ^ std::uint64_t(tensors_.size()));
  tensors_[name] = {n_out, n_in, offset, scale, key};
}

void RandomWeights::add_matrix(const std::string& name, int n_out, int n_in, float gain) {
  add(name, n_out, n_in, 0.0F, gain * std::sqrt(3.0F / float(n_in)));
}

void RandomWeights::add_norm(const std::string& name) { add(name, 1, config_.d_model, 1.0F, 0.2F); }

void RandomWeights::read_rows(std::string_view name, int n_out, int n_in, int first, int n,
                              float* out) const {
  const auto found = tensors_.find(std::string(name));
  if (found == tensors_.end() || found->second.n_out != n_out || found->second.n_in != n_in) {
    throw DataError(config_.name + ": has no tensor '" + std::string(name) + "' of shape [" +
                    std::to_string(n_out) + "][" + std::to_string(n_in) + "]");
  }
  const Tensor& tensor = found->second;
  for (int row = first; row < first + n; ++row, out += n_in) {
    const std::uint64_t key = smix(tensor.key ^ std::uint64_t(row));
    // Two values of each hash: billions of them are wanted.
    for (int i = 0; i < n_in; i += 2) {
      const std::uint64_t bits = smix(key + std::uint64_t(i));
      out[i] = tensor.offset + tensor.scale * uniform(bits >> 40);
      if (i + 1 < n_in) out[i + 1] = tensor.offset + tensor.scale * uniform(bits & 0xffffff);
    }
  }
}

}  // namespace kvscope
