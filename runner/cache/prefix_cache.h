// The block table of an automatic prefix cache: prompts that begin alike share the blocks of their
// common beginning (vLLM's design, Kwon et al., SOSP 2023, arXiv:2309.06180, and its automatic
// prefix caching; policies.md 6).
//
//   key(block)  = sha-256(key(block before it), extra key, the block's tokens); full blocks only
//   match       : the longest run of cached blocks from the start, over at most n - 1 tokens: some
//                 token has to be computed, so of a prompt that is wholly cached the last block is
//   free        : without references, to the tail of the queue, a sequence's last block first
//   evict       : when a new block is wanted, at the head of the queue (least recently used)
//
// Blocks of equal content may exist twice (tables only grow); the one cached first is matched.
// Only block ids are managed here: keys and values are the caller's, who must not write to a block
// with more than one reference, and has a new block's contents ready before the next start().
// Anything that keys and values depend on besides the tokens belongs into the extra key: policy
// with its parameters, position mode, adapter. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runner/cache/free_queue.h"

namespace kvscope {

struct PrefixCacheCounters {
  std::int64_t prompt_tokens = 0;     // of admitted sequences
  std::int64_t hit_tokens = 0;        // of those, found in the cache
  std::int64_t evictions = 0;         // blocks that lost their cached content
  std::int64_t duplicate_blocks = 0;  // cached although a block of equal content was
};

class PrefixCache {
 public:
  using Token = std::int32_t;
  using SequenceId = std::int64_t;

  struct Start {
    SequenceId sequence = 0;
    int hit_tokens = 0;                   // a multiple of block_tokens, below the prompt's length
    std::vector<BlockId> hit_blocks;      // the head of the block table
    std::vector<BlockId> evicted_blocks;  // reused, in order
  };

  // Throws std::invalid_argument if either is below 1.
  PrefixCache(int n_blocks, int block_tokens);

  // Blocks for a prompt of at least one token. Nothing, and nothing changed, while too few blocks
  // are free.
  std::optional<Start> start(std::span<const Token> prompt, std::string_view extra_key = {});

  // One more token of a running sequence: a new block where the last one is full. False, and
  // nothing changed, while none is free.
  bool append(SequenceId sequence, Token token);

  // Gives up the sequence's references. What was cached stays so until a block is wanted.
  void finish(SequenceId sequence);

  int block_tokens() const { return block_tokens_; }
  int n_blocks() const { return int(blocks_.size()); }
  int free_blocks() const { return free_.size(); }
  int used_blocks() const { return n_blocks() - free_blocks(); }
  int references(BlockId block) const { return blocks_[block].references; }
  bool is_cached(BlockId block) const { return !blocks_[block].key.empty(); }
  std::vector<BlockId> free_queue() const { return free_.blocks(); }  // the next to be taken first
  const std::vector<BlockId>& block_table(SequenceId sequence) const;
  const PrefixCacheCounters& counters() const { return counters_; }

 private:
  struct Block {
    int references = 0;
    std::string key;  // empty: not cached
  };
  struct Sequence {
    std::vector<BlockId> table;
    std::vector<Token> open_tokens;  // of the last block while it is not full
    std::string last_key;            // of the last full block; empty before one
    std::string extra_key;
  };

  std::string key_of(std::string_view parent, std::string_view extra_key,
                     std::span<const Token> tokens) const;
  std::vector<BlockId> longest_match(std::span<const std::string> keys) const;
  BlockId take_free(std::vector<BlockId>& evicted);
  void cache(BlockId block, std::string key);
  const Sequence& running(SequenceId sequence) const;  // throws if it is not
  Sequence& running(SequenceId sequence);

  int block_tokens_;
  std::vector<Block> blocks_;  // [n_blocks]
  FreeQueue free_;
  std::unordered_map<std::string, std::vector<BlockId>> cached_;  // by key, first cached first
  std::unordered_map<SequenceId, Sequence> sequences_;
  SequenceId next_sequence_ = 0;
  PrefixCacheCounters counters_;
};

}  // namespace kvscope
