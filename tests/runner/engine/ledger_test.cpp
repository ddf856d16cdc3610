// The ledger against an independent walk of the caches and the pool after every token.
#include <gtest/gtest.h>

#include <set>

#include "runner/engine/rope_table.h"
#include "runner/engine/step_batch.h"
#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

KvBytes walk(const Sequence& sequence) {
  KvBytes bytes;
  for (const HeadCache& head : sequence.heads) {
    const PageShape& page = head.pool().shape();
    if (head.kivi() != nullptr) {  // its own walk is kivi_store_test's
      bytes.logical_bytes += head.logical_bytes();
      bytes.physical_bytes += head.kivi()->bytes().physical_bytes;
      bytes.metadata_bytes += head.kivi()->bytes().metadata_bytes;
    } else {
      bytes.logical_bytes +=
          std::int64_t(head.positions().size()) * std::int64_t(page.token_bytes());
    }
    bytes.physical_bytes += std::int64_t(head.pages().size()) * std::int64_t(page.page_bytes());
    bytes.metadata_bytes += std::int64_t(head.positions().size_bytes() + head.pages().size_bytes() +
                                         head.statistic.size() * 4 + head.count.size() * 4 +
                                         head.priority.size() * 8 + head.rank.size() * 4);
  }
  for (const QuestPages& pages : sequence.read_pages)
    bytes.metadata_bytes += std::int64_t(pages.metadata_bytes());
  for (const auto& state : sequence.host) {
    if (state != nullptr) bytes.metadata_bytes += state->state_bytes();
  }
  return bytes;
}

TEST(Ledger, EqualsAWalkOfThePoolAtEveryStepAndSharedPagesCountOncePerRow) {
  TinyEngine tiny(gqa_shape());
  EngineContext context(
      tiny.model, *tiny.backend,
      make_rope_table(tiny.model.config.head_dim, tiny.model.config.rope_theta, 256));
  Forward forward(tiny.model, *tiny.backend);
  StepBatch batch(context, forward);
  const auto ids = random_ids(130);

  std::vector<std::string> texts = in_stream_policies();
  std::vector<Sequence> sequences;
  std::vector<RowRule> rules;
  std::vector<Account> accounts;
  for (const std::string& text : texts) {
    const auto policy = fit(text, 37, 130, true);
    rules.push_back(after_rule(*policy, nullptr));
    sequences.push_back(make_sequence(context, *policy, nullptr));
    for (int layer = 0; layer < tiny.model.config.n_layers; ++layer) {
      start_unit_states(sequences.back(), layer, tiny.model.config.n_layers,
                        tiny.model.attention_shape(0), *policy, rules.back(), {});
    }
    accounts.emplace_back(context.pool_of(policy->storage()).shape());
  }
  // Halfway, the first arm's row parts in two: the copy shares its pages until they differ.
  for (int t = 0; t < 130; ++t) {
    if (t == 65) {
      texts.push_back(texts[1] + " forked");
      rules.push_back(rules[1]);
      sequences.push_back(sequences[1].fork());
      accounts.push_back(accounts[1]);
    }
    std::vector<StepRow> rows;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const bool copy = i == texts.size() - 1 && t >= 65;
      rows.push_back(
          {&sequences[i], rules[i], copy ? ids[129 - t] : ids[t], t, &accounts[i], std::size_t(t)});
    }
    batch.run(rows);
    std::set<PageId> held;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      expect_same_bytes(accounts[i].resident(t), walk(sequences[i]),
                        texts[i] + " at " + std::to_string(t));
      for (const HeadCache& head : sequences[i].heads) {
        if (&head.pool() != &context.pages) continue;
        held.insert(head.pages().begin(), head.pages().end());
      }
    }
    ASSERT_EQ(context.pages.held_pages(), std::int64_t(held.size()));
  }
  sequences.clear();
  EXPECT_EQ(context.pages.held_pages(), 0);
}

}  // namespace
}  // namespace kvscope
