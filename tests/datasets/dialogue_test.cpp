#include "datasets/dialogue/dialogue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"

namespace kvscope {
namespace {

// One token a byte.
DialogueOptions small(DialogueKind kind) {
  DialogueOptions options;
  options.text.lengths = {1500};
  options.text.samples_per_length = 3;
  options.kind = kind;
  return options;
}

std::string evidence(const FakeTokenizer& tokenizer, const Sample& sample) {
  return tokenizer.decode(
      std::span(sample.prompt_ids)
          .subspan(static_cast<std::size_t>(sample.evidence_begin),
                   static_cast<std::size_t>(sample.evidence_end - sample.evidence_begin)));
}

TEST(Dialogue, is_one_prompt_with_a_sample_for_each_turn) {
  const FakeTokenizer tokenizer;
  const Dialogues dialogues = make_dialogues(small(DialogueKind::kRandom), tokenizer);
  ASSERT_EQ(dialogues.data.samples.size(), 12U);
  ASSERT_EQ(dialogues.feeds.size(), 12U);
  std::set<std::string> keys;
  for (std::size_t i = 0; i < 12; ++i) {
    const Sample& sample = dialogues.data.samples[i];
    const Sample& first = dialogues.data.samples[i - i % 4];
    keys.insert(sample.key);
    EXPECT_EQ(sample.prompt_ids, first.prompt_ids);
    EXPECT_EQ(sample.prompt_ids.size(), 1500U);
    EXPECT_EQ(sample.cluster_key, first.cluster_key);
    EXPECT_EQ(sample.tags.at("turn"), std::to_string(i % 4));
    EXPECT_NE(evidence(tokenizer, sample).find(sample.golds[0]), std::string::npos);
  }
  EXPECT_EQ(keys.size(), 12U);
}

TEST(Dialogue, feeds_earlier_turns_with_their_right_answers) {
  const FakeTokenizer tokenizer;
  const Dialogues dialogues = make_dialogues(small(DialogueKind::kRandom), tokenizer);
  const auto& samples = dialogues.data.samples;
  std::vector<std::int32_t> history;
  for (std::size_t turn = 0; turn < 4; ++turn) {
    const auto& feed = dialogues.feeds[turn];
    history.insert(history.end(), feed.begin(), feed.end());
    EXPECT_EQ(samples[turn].prefix_ids, history);
    const auto& gold = samples[turn].gold_ids;
    history.insert(history.end(), gold.begin(), gold.end());
  }
  const std::string second = tokenizer.decode(dialogues.feeds[1]);
  EXPECT_TRUE(
      second.starts_with("<|im_end|>\n<|im_start|>user\nWhat is the special magic number for "))
      << second;
  EXPECT_NE(second.find("text?<|im_end|>\n<|im_start|>assistant\nThe special magic number for "),
            std::string::npos);
}

TEST(Dialogue, a_topic_switch_goes_back_to_the_start_and_its_control_begins_there) {
  const FakeTokenizer tokenizer;
  const auto late = make_dialogues(small(DialogueKind::kTopicSwitch), tokenizer).data;
  const auto early = make_dialogues(small(DialogueKind::kEarlyFirst), tokenizer).data;
  for (std::size_t d = 0; d < 3; ++d) {
    for (std::size_t turn = 0; turn < 4; ++turn) {
      EXPECT_EQ(late.samples[4 * d + turn].tags.at("asks"), turn == 3 ? "early" : "recent");
      EXPECT_EQ(early.samples[4 * d + turn].tags.at("asks"), turn == 0 ? "early" : "recent");
    }
    // The same fact of the same text.
    EXPECT_EQ(late.samples[4 * d + 3].golds, early.samples[4 * d].golds);
    EXPECT_EQ(late.samples[4 * d].golds, early.samples[4 * d + 1].golds);
  }
  EXPECT_NE(late.key(), early.key());
}

TEST(Dialogue, of_own_answers_is_another_data_set) {
  const FakeTokenizer tokenizer;
  DialogueOptions options = small(DialogueKind::kRandom);
  const std::string gold = make_dialogues(options, tokenizer).data.key();
  EXPECT_EQ(gold, make_dialogues(options, tokenizer).data.key());
  options.feed = DialogueFeed::kOwn;
  EXPECT_NE(gold, make_dialogues(options, tokenizer).data.key());
}

TEST(Dialogue, refuses_absurd_numbers_of_turns) {
  const FakeTokenizer tokenizer;
  DialogueOptions options = small(DialogueKind::kRandom);
  for (const int turns : {0, 1, 1000}) {
    options.turns = turns;
    EXPECT_THROW(make_dialogues(options, tokenizer), UsageError) << turns;
  }
}

}  // namespace
}  // namespace kvscope
