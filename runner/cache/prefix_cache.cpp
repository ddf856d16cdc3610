#include "runner/cache/prefix_cache.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runner/base/sha256.h"

namespace kvscope {
namespace {

int checked_blocks(int n_blocks, int block_tokens) {
  if (n_blocks < 1 || block_tokens < 1) {
    throw std::invalid_argument("prefix cache: " + std::to_string(n_blocks) + " blocks of " +
                                std::to_string(block_tokens) + " tokens; at least 1 each");
  }
  return n_blocks;
}

}  // namespace

PrefixCache::PrefixCache(int n_blocks, int block_tokens)
    : block_tokens_(block_tokens),
      blocks_(std::size_t(checked_blocks(n_blocks, block_tokens))),
      free_(n_blocks) {}

std::optional<PrefixCache::Start> PrefixCache::start(std::span<const Token> prompt,
                                                     std::string_view extra_key) {
  if (prompt.empty()) throw std::invalid_argument("prefix cache: a prompt without tokens");
  const auto size = std::size_t(block_tokens_);
  std::vector<std::string> keys;
  for (std::size_t end = size; end <= prompt.size(); end += size) {
    keys.push_back(
        key_of(keys.empty() ? "" : keys.back(), extra_key, prompt.subspan(end - size, size)));
  }
  Start result;
  result.hit_blocks =
      longest_match(std::span(keys).first(std::min(keys.size(), (prompt.size() - 1) / size)));
  result.hit_tokens = int(result.hit_blocks.size()) * block_tokens_;

  const std::size_t n_new = (prompt.size() + size - 1) / size - result.hit_blocks.size();
  const auto in_queue = std::count_if(result.hit_blocks.begin(), result.hit_blocks.end(),
                                      [&](BlockId block) { return references(block) == 0; });
  if (n_new + std::size_t(in_queue) > std::size_t(free_.size())) return std::nullopt;

  Sequence sequence;
  sequence.table = result.hit_blocks;
  for (const BlockId block : sequence.table) {
    if (blocks_[block].references++ == 0) free_.remove(block);
  }
  while (sequence.table.size() < result.hit_blocks.size() + n_new) {
    sequence.table.push_back(take_free(result.evicted_blocks));
  }
  for (std::size_t i = result.hit_blocks.size(); i < keys.size(); ++i) {
    cache(sequence.table[i], keys[i]);
  }
  const auto open = prompt.subspan(keys.size() * size);
  sequence.open_tokens.assign(open.begin(), open.end());
  if (!keys.empty()) sequence.last_key = keys.back();
  sequence.extra_key = extra_key;
  counters_.prompt_tokens += std::ssize(prompt);
  counters_.hit_tokens += result.hit_tokens;
  result.sequence = next_sequence_++;
  sequences_.emplace(result.sequence, std::move(sequence));
  return result;
}

bool PrefixCache::append(SequenceId id, Token token) {
  Sequence& sequence = running(id);
  if (sequence.open_tokens.empty()) {
    if (free_.size() == 0) return false;
    std::vector<BlockId> evicted;
    sequence.table.push_back(take_free(evicted));
  }
  sequence.open_tokens.push_back(token);
  if (std::ssize(sequence.open_tokens) == block_tokens_) {
    sequence.last_key = key_of(sequence.last_key, sequence.extra_key, sequence.open_tokens);
    cache(sequence.table.back(), sequence.last_key);
    sequence.open_tokens.clear();
  }
  return true;
}

void PrefixCache::finish(SequenceId id) {
  const std::vector<BlockId>& table = running(id).table;
  // The tail first: what ends a chain is worth less than what begins it.
  for (auto block = table.rbegin(); block != table.rend(); ++block) {
    if (--blocks_[*block].references == 0) free_.push_tail(*block);
  }
  sequences_.erase(id);
}

const std::vector<BlockId>& PrefixCache::block_table(SequenceId sequence) const {
  return running(sequence).table;
}

PrefixCache::Sequence& PrefixCache::running(SequenceId id) {
  return const_cast<Sequence&>(std::as_const(*this).running(id));
}

const PrefixCache::Sequence& PrefixCache::running(SequenceId id) const {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) {
    throw std::invalid_argument("prefix cache: sequence " + std::to_string(id) + " is not running");
  }
  return found->second;
}

// Parent and tokens have a fixed length (or the parent none), so that no two inputs give the same
// bytes.
std::string PrefixCache::key_of(std::string_view parent, std::string_view extra_key,
                                std::span<const Token> tokens) const {
  std::string bytes(tokens.size_bytes(), '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  bytes += parent;
  bytes += '/';
  bytes += extra_key;
  return sha256_hex(bytes);
}

std::vector<BlockId> PrefixCache::longest_match(std::span<const std::string> keys) const {
  std::vector<BlockId> match;
  for (const std::string& key : keys) {
    const auto found = cached_.find(key);
    if (found == cached_.end()) break;
    match.push_back(found->second.front());
  }
  return match;
}

BlockId PrefixCache::take_free(std::vector<BlockId>& evicted) {
  const BlockId id = free_.head();
  free_.remove(id);
  Block& block = blocks_[id];
  if (!block.key.empty()) {
    const auto found = cached_.find(block.key);
    std::erase(found->second, id);
    if (found->second.empty()) cached_.erase(found);
    block.key.clear();
    evicted.push_back(id);
    ++counters_.evictions;
  }
  block.references = 1;
  return id;
}

void PrefixCache::cache(BlockId block, std::string key) {
  std::vector<BlockId>& same = cached_[key];
  if (!same.empty()) ++counters_.duplicate_blocks;
  same.push_back(block);
  blocks_[block].key = std::move(key);
}

}  // namespace kvscope
