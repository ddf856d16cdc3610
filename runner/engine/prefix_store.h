// Automatic prefix caching for prompts (policies.md 6): what each layer's projections and dense
// rows gave for blocks of a common beginning is kept and not computed again. Kept are the rows'
// queries, keys and values before RoPE and their log-sum-exps, not what some arm made of them: so
// every arm of every sample, whatever its score, positions or storage, gets what it would have got
// without, bit for bit, and no cut depends on where statistics came from.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/cache/prefix_cache.h"

namespace kvscope {

class PrefixStore {
 public:
  static constexpr int kBlockTokens = 64;

  // Holds as many blocks as max_bytes allow, at least one.
  PrefixStore(std::int64_t max_bytes, int n_layers, const AttentionShape& shape);

  // One prompt in work. Its new blocks must be written in every layer, then finish() called; one
  // that is destroyed before takes everything cached with it, as its blocks hold nothing.
  class Prompt {
   public:
    Prompt(PrefixStore& store, PrefixCache::Start start, int n_tokens);
    ~Prompt();
    Prompt(const Prompt&) = delete;
    Prompt& operator=(const Prompt&) = delete;

    int hit_tokens() const { return hit_tokens_; }
    // qkv: [n_tokens][row_floats]; lse: [n_heads][n_tokens]. Reads the hit tokens' …
    void read(int layer, float* qkv, float* lse) const;
    // … and writes those of new full blocks.
    void write(int layer, const float* qkv, const float* lse);
    void finish();

   private:
    PrefixStore& store_;
    PrefixCache::SequenceId sequence_;
    int hit_tokens_;
    int n_tokens_;
    bool finished_ = false;
  };

  // Nothing where the prompt needs more blocks than there are.
  std::unique_ptr<Prompt> start(std::span<const std::int32_t> tokens);

  PrefixCacheCounters counters() const;  // since the store was made

 private:
  // Of one block and layer: [kBlockTokens][row_floats], then [n_heads][kBlockTokens].
  float* block(int layer, BlockId id);
  std::size_t layer_floats() const {
    return kBlockTokens * (shape_.row_floats() + std::size_t(shape_.n_heads));
  }

  int n_layers_;
  AttentionShape shape_;
  PrefixCache cache_;
  PrefixCacheCounters past_;  // of caches that a stopped pass took with it
  std::vector<std::vector<float>>
      blocks_;  // [n_blocks], empty until used: [n_layers][layer_floats]
};

}  // namespace kvscope
