// prefix-cache-vllm of policy-vectors.json and policies.md 9.21.
#include "runner/cache/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/runner/policies/vector_file.h"

namespace kvscope {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<PrefixCache::Token>;
using Blocks = std::vector<BlockId>;

TEST(PrefixCacheVectors, prefix_cache_vllm) {
  const json& vector = testing::policy_vector("prefix-cache-vllm");
  PrefixCache cache(vector.at("params").at("blocks"), vector.at("params").at("block"));
  std::map<std::string, PrefixCache::SequenceId> sequences;
  for (const json& event : vector.at("expect").at("events")) {
    const std::string op = event.at("op");
    SCOPED_TRACE(op);
    if (op.starts_with("finish ")) {
      cache.finish(sequences.at(op.substr(7)));
    } else {
      const std::string name = op.substr(6, 1);
      const auto start = cache.start(vector.at("input").at(name).get<Tokens>());
      ASSERT_TRUE(start.has_value());
      sequences[name] = start->sequence;
      EXPECT_EQ(start->hit_tokens, event.at("hit_tokens").get<int>());
      EXPECT_EQ(start->hit_blocks, event.at("hit_blocks").get<Blocks>());
      EXPECT_EQ(start->evicted_blocks, event.at("evicted_blocks").get<Blocks>());
      EXPECT_EQ(cache.block_table(start->sequence), event.at("block_table").get<Blocks>());
    }
    EXPECT_EQ(cache.free_queue(), event.at("free_queue").get<Blocks>());
  }
  EXPECT_EQ(cache.counters().prompt_tokens, 10 + 9 + 9 + 8);
  EXPECT_EQ(cache.counters().hit_tokens, 8 + 4);
  EXPECT_EQ(cache.counters().evictions, 0);
  EXPECT_EQ(cache.counters().duplicate_blocks, 1);  // D's second block
}

TEST(PrefixCache, a_cached_block_is_lost_when_it_is_reused_and_its_duplicate_is_not) {
  PrefixCache cache(3, 2);
  const Tokens prompt = {1, 2};
  const auto first = cache.start(prompt);
  const auto second = cache.start(prompt);  // wholly cached: its block is computed again
  EXPECT_EQ(second->hit_tokens, 0);
  EXPECT_EQ(cache.counters().duplicate_blocks, 1);
  cache.finish(first->sequence);  // free: 2, 0
  const auto other = cache.start(Tokens{7, 8, 9, 9});
  EXPECT_THAT(other->evicted_blocks, ElementsAre(0));
  EXPECT_EQ(cache.counters().evictions, 1);
  cache.finish(other->sequence);
  const auto again = cache.start(Tokens{1, 2, 3});
  EXPECT_THAT(again->hit_blocks, ElementsAre(1));
}

TEST(PrefixCache, the_extra_key_separates_equal_tokens) {
  PrefixCache cache(8, 2);
  cache.start(Tokens{1, 2, 3}, "h2o");
  EXPECT_EQ(cache.start(Tokens{1, 2, 3}, "tova")->hit_tokens, 0);
  EXPECT_EQ(cache.start(Tokens{1, 2, 3}, "h2o")->hit_tokens, 2);
}

TEST(PrefixCache, a_block_is_found_only_behind_the_same_beginning) {
  PrefixCache cache(8, 2);
  cache.start(Tokens{1, 2, 3, 4});
  EXPECT_EQ(cache.start(Tokens{3, 4, 5})->hit_tokens, 0);
  EXPECT_EQ(cache.start(Tokens{9, 9, 3, 4, 5})->hit_tokens, 0);
}

TEST(PrefixCache, decoded_tokens_fill_blocks_that_later_prompts_find) {
  PrefixCache cache(3, 2);
  const auto chat = cache.start(Tokens{1});
  for (const int token : {2, 3, 4, 5}) ASSERT_TRUE(cache.append(chat->sequence, token));
  EXPECT_THAT(cache.block_table(chat->sequence), ElementsAre(0, 1, 2));
  EXPECT_TRUE(cache.append(chat->sequence, 6));
  EXPECT_FALSE(cache.append(chat->sequence, 7));  // no block is free
  EXPECT_THAT(cache.block_table(chat->sequence), ElementsAre(0, 1, 2));
  cache.finish(chat->sequence);
  EXPECT_EQ(cache.start(Tokens{1, 2, 3, 4, 8})->hit_tokens, 4);
}

TEST(PrefixCache, a_prompt_that_does_not_fit_changes_nothing) {
  PrefixCache cache(3, 2);
  const auto running = cache.start(Tokens{1, 2, 3});
  // The hit is in use; two more blocks are wanted and one is free.
  EXPECT_FALSE(cache.start(Tokens{1, 2, 5, 6, 7}).has_value());
  EXPECT_EQ(cache.references(0), 1);
  EXPECT_THAT(cache.free_queue(), ElementsAre(2));
  EXPECT_EQ(cache.counters().prompt_tokens, 3);
  cache.finish(running->sequence);
  // Block 0 is in the free queue itself: it cannot be both the hit and a new block.
  EXPECT_FALSE(cache.start(Tokens{1, 2, 5, 6, 7, 8, 9}).has_value());
  EXPECT_THAT(cache.free_queue(), ElementsAre(2, 1, 0));
}

TEST(PrefixCache, refuses_what_makes_no_sense) {
  EXPECT_THROW(PrefixCache(0, 4), std::invalid_argument);
  EXPECT_THROW(PrefixCache(4, 0), std::invalid_argument);
  PrefixCache cache(4, 4);
  EXPECT_THROW(cache.start({}), std::invalid_argument);
  EXPECT_THROW(cache.finish(0), std::invalid_argument);
  EXPECT_THROW(cache.append(0, 1), std::invalid_argument);
  EXPECT_THROW(cache.block_table(0), std::invalid_argument);
}

// The same rules over whole prefixes instead of hashes and over plain lists.
class NaiveCache {
 public:
  struct Sequence {
    Tokens tokens;
    Blocks table;
  };

  NaiveCache(int n_blocks, int block) : block_(block), references(n_blocks), content(n_blocks) {
    free.resize(std::size_t(n_blocks));
    std::iota(free.begin(), free.end(), 0);
  }

  bool start(int id, const Tokens& prompt, int& hit_tokens) {
    Sequence sequence{prompt, {}};
    const int n = int(prompt.size());
    for (int end = block_; end <= n - 1; end += block_) {
      const Tokens prefix(prompt.begin(), prompt.begin() + end);
      const auto found = std::ranges::find_if(
          cached_order, [&](BlockId block) { return content[block] == prefix; });
      if (found == cached_order.end()) break;
      sequence.table.push_back(*found);
    }
    hit_tokens = int(sequence.table.size()) * block_;
    Blocks rest = free;
    for (const BlockId block : sequence.table) std::erase(rest, block);
    const int n_new = (n + block_ - 1) / block_ - int(sequence.table.size());
    if (n_new > std::ssize(rest)) return false;
    free = rest;
    for (const BlockId block : sequence.table) ++references[block];
    for (int i = 0; i < n_new; ++i) sequence.table.push_back(take());
    for (int b = hit_tokens / block_; b < n / block_; ++b) remember(sequence, b);
    sequences[id] = sequence;
    return true;
  }

  bool append(int id, int token) {
    Sequence& sequence = sequences.at(id);
    if (sequence.tokens.size() % std::size_t(block_) == 0) {
      if (free.empty()) return false;
      sequence.table.push_back(take());
    }
    sequence.tokens.push_back(token);
    if (sequence.tokens.size() % std::size_t(block_) == 0) {
      remember(sequence, int(sequence.tokens.size()) / block_ - 1);
    }
    return true;
  }

  void finish(int id) {
    const Blocks table = sequences.at(id).table;
    for (auto block = table.rbegin(); block != table.rend(); ++block) {
      if (--references[*block] == 0) free.push_back(*block);
    }
    sequences.erase(id);
  }

 private:
  BlockId take() {
    const BlockId block = free.front();
    free.erase(free.begin());
    EXPECT_EQ(references[block], 0);
    evictions += content[block].empty() ? 0 : 1;
    std::erase(cached_order, block);
    content[block].clear();
    references[block] = 1;
    return block;
  }
  void remember(const Sequence& sequence, int b) {
    const Tokens prefix(sequence.tokens.begin(), sequence.tokens.begin() + (b + 1) * block_);
    duplicates += std::ranges::count(content, prefix) > 0 ? 1 : 0;
    content[sequence.table[b]] = prefix;
    cached_order.push_back(sequence.table[b]);
  }

  int block_;

 public:
  std::vector<int> references;  // [n_blocks]
  std::vector<Tokens> content;  // [n_blocks] whole prefix of a cached block
  Blocks free;
  Blocks cached_order;
  std::map<int, Sequence> sequences;
  std::int64_t evictions = 0;
  std::int64_t duplicates = 0;
};

void expect_same(const PrefixCache& cache, const NaiveCache& naive,
                 const std::map<int, PrefixCache::SequenceId>& ids, int block) {
  EXPECT_EQ(cache.free_queue(), naive.free);
  EXPECT_EQ(cache.used_blocks() + cache.free_blocks(), cache.n_blocks());
  EXPECT_EQ(cache.counters().evictions, naive.evictions);
  EXPECT_EQ(cache.counters().duplicate_blocks, naive.duplicates);
  const std::set<BlockId> free(naive.free.begin(), naive.free.end());
  for (BlockId b = 0; b < cache.n_blocks(); ++b) {
    EXPECT_EQ(cache.references(b), naive.references[b]);
    EXPECT_EQ(cache.references(b) == 0, free.contains(b));
    EXPECT_EQ(cache.is_cached(b), !naive.content[b].empty());
    // A chain is lost from its tail first: where a block is cached, so is what comes before it.
    Tokens parent = naive.content[b];
    if (std::ssize(parent) > block) {
      parent.resize(parent.size() - std::size_t(block));
      EXPECT_THAT(naive.content, ::testing::Contains(parent));
    }
  }
  for (const auto& [id, sequence] : naive.sequences) {
    EXPECT_EQ(cache.block_table(ids.at(id)), sequence.table);
  }
}

TEST(PrefixCacheProperties, item_21_random_work_as_in_the_naive_model) {
  std::int64_t hits = 0;
  std::int64_t evictions = 0;
  std::int64_t refused = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int n) { return int(random() % unsigned(n)); };
    const int block = 1 + below(4);
    const int n_blocks = 4 + below(20);
    PrefixCache cache(n_blocks, block);
    NaiveCache naive(n_blocks, block);
    std::map<int, PrefixCache::SequenceId> ids;
    std::vector<Tokens> seen = {{1}};
    for (int step = 0; step < 300 && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(step));
      const int choice = below(10);
      if (choice < 4) {
        // Continues, cuts or repeats something seen, over an alphabet of two: much is shared.
        Tokens prompt = seen[std::size_t(below(int(seen.size())))];
        prompt.resize(std::size_t(1 + below(int(prompt.size()))));
        for (int n = below(2 * block + 2); n > 0; --n) prompt.push_back(below(2));
        seen.push_back(prompt);
        int hit_tokens = 0;
        const bool fits = naive.start(step, prompt, hit_tokens);
        const auto start = cache.start(prompt);
        ASSERT_EQ(start.has_value(), fits);
        refused += fits ? 0 : 1;
        if (fits) {
          EXPECT_EQ(start->hit_tokens, hit_tokens);
          EXPECT_EQ(hit_tokens % block, 0);
          EXPECT_LT(hit_tokens, std::ssize(prompt));
          ids[step] = start->sequence;
          hits += hit_tokens;
        }
      } else if (!naive.sequences.empty()) {
        const auto sequence =
            std::next(naive.sequences.begin(), below(int(naive.sequences.size())));
        if (choice < 8) {
          const int token = below(2);
          EXPECT_EQ(cache.append(ids[sequence->first], token),
                    naive.append(sequence->first, token));
        } else {
          cache.finish(ids[sequence->first]);
          naive.finish(sequence->first);
        }
      }
      expect_same(cache, naive, ids, block);
    }
    while (!naive.sequences.empty()) {
      cache.finish(ids[naive.sequences.begin()->first]);
      naive.finish(naive.sequences.begin()->first);
    }
    EXPECT_EQ(cache.free_blocks(), n_blocks);
    evictions += naive.evictions;
  }
  // The work reaches every path.
  EXPECT_GT(hits, 0);
  EXPECT_GT(evictions, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace kvscope
