#include "datasets/qa/facts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "datasets/qa/fact_words.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

std::string evidence(const FakeTokenizer& tokenizer, const Sample& sample) {
  const std::span<const std::int32_t> ids(sample.prompt_ids);
  return tokenizer.decode(
      ids.subspan(static_cast<std::size_t>(sample.evidence_begin),
                  static_cast<std::size_t>(sample.evidence_end - sample.evidence_begin)));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Facts, the_prefix_restates_the_fact_and_the_gold_completes_it) {
  const FakeTokenizer tokenizer;
  const Dataset data = make_qa({}, tokenizer);
  ASSERT_EQ(data.samples.size(), 20U);
  std::set<std::string> kinds;
  for (const Sample& sample : data.samples) {
    const std::string header = "<|im_end|>\n<|im_start|>assistant\n";
    const std::string prefix = tokenizer.decode(sample.prefix_ids);
    ASSERT_TRUE(prefix.starts_with(header));
    const std::string fact = prefix.substr(header.size()) + tokenizer.decode(sample.gold_ids) + ".";
    EXPECT_EQ(evidence(tokenizer, sample), fact);
    EXPECT_EQ(tokenizer.decode(sample.gold_ids), " " + sample.golds.at(0));
    const std::string prompt = tokenizer.decode(sample.prompt_ids);
    EXPECT_EQ(count(prompt, fact), 1U);
    EXPECT_EQ(count(prompt, " lives in the city of "), 4U);
    EXPECT_EQ(count(prompt, " works as a "), 4U);
    EXPECT_EQ(count(prompt, " owns a "), 4U);
    EXPECT_EQ(prompt.back(), '?');
    // The document ends with its empty line, the question is the last line alone.
    const auto begin = static_cast<std::size_t>(sample.question_begin);
    EXPECT_EQ(tokenizer.decode(std::span(sample.prompt_ids).subspan(begin)),
              prompt.substr(prompt.rfind("\n\n") + 2));
    EXPECT_EQ(sample.answer_cut, AnswerCut::kSentenceRest);
    kinds.insert(sample.tags.at("fact"));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"city", "job", "pet"}));
}

TEST(Facts, by_default_every_sample_has_its_own_document) {
  const FakeTokenizer tokenizer;
  std::set<std::string> clusters;
  for (const Sample& sample : make_qa({}, tokenizer).samples) clusters.insert(sample.cluster_key);
  EXPECT_EQ(clusters.size(), 20U);
}

TEST(Facts, questions_of_a_document_differ_and_share_its_cluster) {
  const FakeTokenizer tokenizer;
  const Dataset data = make_qa({.samples = 7, .questions_per_document = 3, .people = 2}, tokenizer);
  ASSERT_EQ(data.samples.size(), 7U);
  std::set<std::string> first;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(data.samples[i].cluster_key, "document=0");
    first.insert(tokenizer.decode(data.samples[i].prefix_ids));
  }
  EXPECT_EQ(first.size(), 3U);
  EXPECT_EQ(data.samples[3].cluster_key, "document=1");
  EXPECT_EQ(data.samples[6].key, "document=2:question=0");
}

TEST(Facts, more_samples_leave_the_first_ones_as_they_are) {
  const FakeTokenizer tokenizer;
  const Dataset few = make_qa({.samples = 3}, tokenizer);
  const Dataset many = make_qa({.samples = 6}, tokenizer);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(few.samples[i].input_sha256, many.samples[i].input_sha256);
  }
}

TEST(Facts, are_the_same_for_a_seed_and_others_for_another) {
  const FakeTokenizer tokenizer;
  const Dataset data = make_qa({}, tokenizer);
  EXPECT_EQ(data.key(), make_qa({}, tokenizer).key());
  // Pinned: a change here is a change of the data set, and asks for a new version of it.
  EXPECT_EQ(data.samples[0].golds[0], "cat");
  EXPECT_EQ(data.key(), "f783e5555b1576e7c208c21092588e4d1da574c6f00b68d1b058f73fb192f9f0");
  EXPECT_NE(data.key(), make_qa({.seed = 2}, tokenizer).key());
}

TEST(Facts, filler_can_be_left_out) {
  const FakeTokenizer tokenizer;
  const Dataset data = make_qa({.samples = 1, .people = 4, .filler = false}, tokenizer);
  EXPECT_EQ(tokenizer.decode(data.samples[0].prompt_ids).find("grass"), std::string::npos);
}

TEST(Facts, refuse_absurd_options) {
  const FakeTokenizer tokenizer;
  const auto error = [&](const QaOptions& options) {
    return message_of<UsageError>([&] { make_qa(options, tokenizer); });
  };
  EXPECT_NE(error({.samples = 0}).find("at least 1 sample"), std::string::npos);
  EXPECT_NE(error({.people = 0}).find("people must be 1 to 32, not 0"), std::string::npos);
  EXPECT_NE(error({.people = 33}).find("people must be 1 to 32"), std::string::npos);
  EXPECT_NE(error({.questions_per_document = 4, .people = 1}).find("1 to 3 questions, not 4"),
            std::string::npos);
}

TEST(FactWords, are_different_and_no_job_or_pet_takes_an) {
  for (const auto list :
       {person_names(), city_names(), job_names(), pet_names(), filler_sentences()}) {
    EXPECT_EQ(std::set<std::string_view>(list.begin(), list.end()).size(), list.size());
  }
  for (const auto list : {job_names(), pet_names()}) {
    for (const std::string_view word : list) {
      EXPECT_EQ(std::string_view("aeiou").find(word.front()), std::string_view::npos) << word;
    }
  }
}

}  // namespace
}  // namespace kvscope
