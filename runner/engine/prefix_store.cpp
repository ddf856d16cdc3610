#include "runner/engine/prefix_store.h"

#include <algorithm>

namespace kvscope {
namespace {

int blocks_within(std::int64_t max_bytes, int n_layers, const AttentionShape& shape) {
  const auto bytes = std::int64_t(sizeof(float)) * n_layers * PrefixStore::kBlockTokens *
                     std::int64_t(shape.row_floats() + std::size_t(shape.n_heads));
  return int(std::clamp<std::int64_t>(max_bytes / bytes, 1, 1 << 20));
}

}  // namespace

PrefixStore::PrefixStore(std::int64_t max_bytes, int n_layers, const AttentionShape& shape)
    : n_layers_(n_layers),
      shape_(shape),
      cache_(blocks_within(max_bytes, n_layers, shape), kBlockTokens),
      blocks_(cache_.n_blocks()) {}

std::unique_ptr<PrefixStore::Prompt> PrefixStore::start(std::span<const std::int32_t> tokens) {
  auto started = cache_.start(tokens);
  if (!started) return nullptr;
  return std::make_unique<Prompt>(*this, std::move(*started), int(tokens.size()));
}

PrefixCacheCounters PrefixStore::counters() const {
  const PrefixCacheCounters& now = cache_.counters();
  return {past_.prompt_tokens + now.prompt_tokens, past_.hit_tokens + now.hit_tokens,
          past_.evictions + now.evictions, past_.duplicate_blocks + now.duplicate_blocks};
}

float* PrefixStore::block(int layer, BlockId id) {
  std::vector<float>& floats = blocks_[id];
  floats.resize(n_layers_ * layer_floats());
  return floats.data() + layer * layer_floats();
}

PrefixStore::Prompt::Prompt(PrefixStore& store, PrefixCache::Start start, int n_tokens)
    : store_(store),
      sequence_(start.sequence),
      hit_tokens_(start.hit_tokens),
      n_tokens_(n_tokens) {}

PrefixStore::Prompt::~Prompt() {
  if (finished_) return;
  store_.past_ = store_.counters();
  store_.cache_ = PrefixCache(store_.cache_.n_blocks(), kBlockTokens);
}

void PrefixStore::Prompt::finish() {
  store_.cache_.finish(sequence_);
  finished_ = true;
}

void PrefixStore::Prompt::read(int layer, float* qkv, float* lse) const {
  const AttentionShape& shape = store_.shape_;
  const std::vector<BlockId>& table = store_.cache_.block_table(sequence_);
  for (int first = 0; first < hit_tokens_; first += kBlockTokens) {
    const float* from = store_.block(layer, table[first / kBlockTokens]);
    const std::size_t rows = kBlockTokens * shape.row_floats();
    std::copy_n(from, rows, qkv + first * shape.row_floats());
    for (int h = 0; h < shape.n_heads; ++h)
      std::copy_n(from + rows + h * kBlockTokens, kBlockTokens,
                  lse + std::size_t(h) * n_tokens_ + first);
  }
}

void PrefixStore::Prompt::write(int layer, const float* qkv, const float* lse) {
  const AttentionShape& shape = store_.shape_;
  const std::vector<BlockId>& table = store_.cache_.block_table(sequence_);
  for (int first = hit_tokens_; first + kBlockTokens <= n_tokens_; first += kBlockTokens) {
    float* to = store_.block(layer, table[first / kBlockTokens]);
    const std::size_t rows = kBlockTokens * shape.row_floats();
    std::copy_n(qkv + first * shape.row_floats(), rows, to);
    for (int h = 0; h < shape.n_heads; ++h)
      std::copy_n(lse + std::size_t(h) * n_tokens_ + first, kBlockTokens,
                  to + rows + h * kBlockTokens);
  }
}

}  // namespace kvscope
