#include "datasets/needle/needle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "datasets/needle/haystack.h"
#include "datasets/needle/words.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

// Prompts of the fake tokenizer have one id a byte, so lengths here are bytes.
NeedleOptions small() {
  NeedleOptions options;
  options.lengths = {900};
  options.samples_per_length = 5;
  return options;
}

std::string evidence(const FakeTokenizer& tokenizer, const Sample& sample) {
  const std::span<const std::int32_t> ids(sample.prompt_ids);
  return tokenizer.decode(
      ids.subspan(static_cast<std::size_t>(sample.evidence_begin),
                  static_cast<std::size_t>(sample.evidence_end - sample.evidence_begin)));
}

std::string question(const FakeTokenizer& tokenizer, const Sample& sample) {
  const std::span<const std::int32_t> ids(sample.prompt_ids);
  return tokenizer.decode(ids.subspan(static_cast<std::size_t>(sample.question_begin)));
}

// The text between instruction and question.
std::string body(const FakeTokenizer& tokenizer, const Sample& sample) {
  const std::string prompt = tokenizer.decode(sample.prompt_ids);
  const std::size_t begin = prompt.find("memorize ");
  const std::size_t line = prompt.find('\n', begin) + 1;
  return prompt.substr(line, prompt.rfind('\n') - line);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Needle, has_the_wording_that_a_small_model_passes) {
  const FakeTokenizer tokenizer;
  const Dataset data = make_needle(small(), tokenizer);
  ASSERT_EQ(data.samples.size(), 5U);
  for (const Sample& sample : data.samples) {
    const std::string prompt = tokenizer.decode(sample.prompt_ids);
    const std::string& number = sample.golds.at(0);
    EXPECT_EQ(number.size(), 5U);
    const std::string needle = evidence(tokenizer, sample);
    const std::string start = "One of the special magic numbers for ";
    ASSERT_TRUE(needle.starts_with(start)) << needle;
    const std::string word =
        needle.substr(start.size(), needle.find(' ', start.size()) - start.size());
    EXPECT_EQ(needle, start + word + " is: " + number + ".");
    EXPECT_TRUE(
        prompt.starts_with("<|im_start|>user\nA special magic number is hidden within the "
                           "following text. Make sure to memorize it.\n"));
    EXPECT_TRUE(prompt.ends_with("\nWhat is the special magic number for " + word +
                                 " mentioned in the provided text?"));
    EXPECT_EQ(question(tokenizer, sample),
              "What is the special magic number for " + word + " mentioned in the provided text?");
    EXPECT_EQ(tokenizer.decode(sample.prefix_ids),
              "<|im_end|>\n<|im_start|>assistant\nThe special magic number for " + word +
                  " mentioned in the provided text is");
    EXPECT_EQ(tokenizer.decode(sample.gold_ids), " " + number);
    EXPECT_EQ(count(prompt, number), 1U);
    EXPECT_EQ(sample.cluster_key, sample.key);
    EXPECT_EQ(sample.input_sha256,
              input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids));
  }
}

TEST(Needle, fills_the_length_to_the_word_and_never_exceeds_it) {
  const FakeTokenizer tokenizer;
  NeedleOptions options = small();
  options.lengths = {400, 611, 1203};
  for (const Sample& sample : make_needle(options, tokenizer).samples) {
    const auto length = static_cast<std::size_t>(std::stoi(sample.tags.at("length")));
    EXPECT_LE(sample.prompt_ids.size(), length);
    // The longest word of the noise, "yellow.", with its space is 8 bytes.
    EXPECT_GT(sample.prompt_ids.size() + 8, length) << sample.key;
  }
}

TEST(Needle, spreads_depths_evenly_and_stands_between_sentences) {
  const FakeTokenizer tokenizer;
  const Dataset data = make_needle(small(), tokenizer);
  const std::vector<std::string> depths = {"0.0", "25.0", "50.0", "75.0", "100.0"};
  for (std::size_t i = 0; i < 5; ++i) {
    const Sample& sample = data.samples[i];
    EXPECT_EQ(sample.tags.at("depth_percent"), depths[i]);
    const std::string text = body(tokenizer, sample);
    const std::size_t at = text.find("One of the special");
    const std::size_t needle_bytes = evidence(tokenizer, sample).size();
    if (i == 0) {
      EXPECT_EQ(at, 0U);
    } else {
      EXPECT_EQ(text.substr(at - 2, 2), ". ");
    }
    if (i == 4) {
      EXPECT_EQ(at + needle_bytes, text.size());
    } else {
      EXPECT_EQ(text.substr(at + needle_bytes - 1, 2), ". ");
      // Half of the longest sentence (23 bytes) and half of the broken last one.
      EXPECT_NEAR(static_cast<double>(at),
                  0.25 * static_cast<double>(i * (text.size() - needle_bytes)), 24);
    }
  }
}

TEST(Needle, takes_given_depths_in_turn) {
  const FakeTokenizer tokenizer;
  NeedleOptions options = small();
  options.depths_percent = {10, 90};
  std::vector<std::string> depths;
  for (const Sample& sample : make_needle(options, tokenizer).samples) {
    depths.push_back(sample.tags.at("depth_percent"));
  }
  EXPECT_EQ(depths, (std::vector<std::string>{"10.0", "90.0", "10.0", "90.0", "10.0"}));
}

TEST(Needle, key_value_hides_several_numbers_and_asks_for_one) {
  const FakeTokenizer tokenizer;
  NeedleOptions options = small();
  options.kind = NeedleKind::kKeyValue;
  options.keys = 3;
  for (const Sample& sample : make_needle(options, tokenizer).samples) {
    const std::string prompt = tokenizer.decode(sample.prompt_ids);
    EXPECT_EQ(count(prompt, "One of the special magic numbers for "), 3U);
    EXPECT_EQ(count(prompt, sample.golds.at(0)), 1U);
    EXPECT_NE(evidence(tokenizer, sample).find(sample.golds.at(0)), std::string::npos);
    EXPECT_LE(sample.prompt_ids.size(), 900U);
  }
}

TEST(Needle, is_the_same_for_a_seed_and_another_for_another) {
  const FakeTokenizer tokenizer;
  NeedleOptions options = small();
  const Dataset first = make_needle(options, tokenizer);
  EXPECT_EQ(first.key(), make_needle(options, tokenizer).key());
  // Pinned: a change here is a change of the data set, and asks for a new version of it.
  EXPECT_EQ(first.samples[0].golds[0], "65500");
  EXPECT_EQ(first.key(), "f95173fcebe419621fe432c04769b5f1e818459e60c702a6ce03a2718dc2841d");
  options.seed = 2;
  EXPECT_NE(first.key(), make_needle(options, tokenizer).key());

  std::set<std::string> numbers;
  for (const Sample& sample : first.samples) numbers.insert(sample.golds[0]);
  EXPECT_EQ(numbers.size(), 5U);
}

TEST(Needle, reads_a_folder_of_essays_in_the_order_of_names) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  std::string first;
  std::string second;
  for (int i = 0; i < 200; ++i) {
    first += "First essay, sentence " + std::to_string(i) + ". ";
    second += "Second essay, sentence " + std::to_string(i) + ". ";
  }
  folder.write("b.txt", second);
  folder.write("a.txt", first);
  folder.write("notes.md", "not read");
  NeedleOptions options = small();
  options.haystack = folder.path();
  options.lengths = {900, 1800};
  const Dataset data = make_needle(options, tokenizer);
  std::set<std::string> clusters;
  for (std::size_t i = 0; i < 5; ++i) {
    // The shorter prompt reads the same section.
    EXPECT_EQ(data.samples[i].cluster_key, data.samples[i + 5].cluster_key);
    clusters.insert(data.samples[i].cluster_key);
    EXPECT_EQ(body(tokenizer, data.samples[i]).find("not read"), std::string::npos);
  }
  // 5 stretches of 1,800 bytes lie in 11 kB.
  EXPECT_EQ(clusters.size(), 5U);
}

TEST(Needle, goes_round_a_short_haystack) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  NeedleOptions options = small();
  options.haystack = folder.write("a.txt", "One sentence. Another sentence.");
  const Dataset data = make_needle(options, tokenizer);
  EXPECT_GT(count(body(tokenizer, data.samples[0]), "Another sentence."), 5U);
  EXPECT_EQ(data.samples[0].cluster_key, data.samples[1].cluster_key);
}

TEST(Needle, can_fill_its_length_to_the_token_also_at_the_end_of_a_paragraph) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  NeedleOptions options = small();
  std::string text;
  for (int i = 0; i < 100; ++i) text += "Paragraph " + std::to_string(i) + " is short.\n\n";
  options.haystack = folder.write("a.txt", text);
  options.exact = true;
  options.lengths.clear();
  for (int length = 600; length < 640; ++length) options.lengths.push_back(length);
  for (const Sample& sample : make_needle(options, tokenizer).samples) {
    EXPECT_EQ(std::to_string(sample.prompt_ids.size()), sample.tags.at("length")) << sample.key;
  }
}

TEST(Needle, refuses_absurd_options) {
  const FakeTokenizer tokenizer;
  const auto error = [&](const auto& change) {
    NeedleOptions options = small();
    change(options);
    return message_of<UsageError>([&] { make_needle(options, tokenizer); });
  };
  EXPECT_NE(error([](auto& o) { o.lengths = {10}; }).find("10 tokens is too short"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.lengths = {0}; }).find("too short"), std::string::npos);
  EXPECT_NE(error([](auto& o) { o.lengths = {}; }).find("at least one prompt length"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.lengths = {900, 900}; }).find("twice"), std::string::npos);
  EXPECT_NE(error([](auto& o) { o.samples_per_length = 0; }).find("at least 1 sample"),
            std::string::npos);
  EXPECT_NE(error([](auto& o) { o.depths_percent = {101}; }).find("0 to 100"), std::string::npos);
  EXPECT_NE(error([](auto& o) {
              o.kind = NeedleKind::kKeyValue;
              o.keys = 1;
            }).find("keys"),
            std::string::npos);
  NeedleOptions options = small();
  const TempFolder folder;
  options.haystack = folder.path();
  EXPECT_NE(message_of<DataError>([&] { make_needle(options, tokenizer); }).find("no .txt file"),
            std::string::npos);
  options.haystack = folder.path() / "none";
  EXPECT_THROW(make_needle(options, tokenizer), IoError);
}

TEST(NeedleWords, are_a_hundred_different_small_words) {
  const std::set<std::string_view> words(needle_words().begin(), needle_words().end());
  EXPECT_EQ(words.size(), needle_words().size());
  EXPECT_GE(words.size(), 100U);
  for (const std::string_view word : words) {
    EXPECT_TRUE(std::all_of(word.begin(), word.end(), [](char c) { return 'a' <= c && c <= 'z'; }))
        << word;
  }
}

TEST(Sentences, joined_are_the_text) {
  const std::string text = "One. “Two?” Three!\n\nFour (five.) 3.5 six\n\n\nSeven";
  const auto sentences = split_sentences(text);
  EXPECT_EQ(sentences, (std::vector<std::string>{"One. ", "“Two?” ", "Three!\n\n", "Four (five.) ",
                                                 "3.5 six\n\n\n", "Seven"}));
}

}  // namespace
}  // namespace kvscope
