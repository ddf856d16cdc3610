#include "datasets/squad/squad.h"

#include <gtest/gtest.h>

#include <string>

#include "datasets/questions/load_questions.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

const char kQuarry[] = KVSCOPE_SOURCE_DIR "/tests/datasets/fixtures/squad/dev-v2.0.json";

std::string evidence(const FakeTokenizer& tokenizer, const Sample& sample) {
  if (sample.evidence_begin < 0) return "unknown";
  const std::span<const std::int32_t> ids(sample.prompt_ids);
  return tokenizer.decode(
      ids.subspan(static_cast<std::size_t>(sample.evidence_begin),
                  static_cast<std::size_t>(sample.evidence_end - sample.evidence_begin)));
}

TEST(Squad, reads_context_question_and_all_answers) {
  const FakeTokenizer tokenizer;
  const Dataset data = load_questions(kQuarry, {}, tokenizer);
  EXPECT_EQ(data.name, "dev-v2.0");
  ASSERT_EQ(data.samples.size(), 1U);
  const Sample& sample = data.samples[0];
  EXPECT_EQ(sample.key, "s1");
  EXPECT_EQ(sample.cluster_key, "article=0");
  EXPECT_EQ(sample.golds, (std::vector<std::string>{"1902", "in 1902"}));
  EXPECT_EQ(sample.answer_cut, AnswerCut::kFirstLine);
  EXPECT_EQ(sample.scorer, "token_f1");
  EXPECT_EQ(
      tokenizer.decode(sample.prompt_ids),
      "<|im_start|>user\nThe quarry closed in 1902 after a flood.\n\nAnswer the question with a "
      "short phrase from the text.\nWhen did the quarry close?");
  // The instruction belongs to the question: what is kept of the document must serve any.
  const auto begin = static_cast<std::size_t>(sample.question_begin);
  EXPECT_EQ(tokenizer.decode(std::span(sample.prompt_ids).subspan(begin)),
            "Answer the question with a short phrase from the text.\nWhen did the quarry close?");
  EXPECT_EQ(tokenizer.decode(sample.prefix_ids), "<|im_end|>\n<|im_start|>assistant\nAnswer:");
  EXPECT_EQ(tokenizer.decode(sample.gold_ids), " 1902");
  EXPECT_EQ(evidence(tokenizer, sample), "1902");
}

TEST(Squad, keeps_impossible_questions_with_an_empty_gold_when_asked) {
  const FakeTokenizer tokenizer;
  const Dataset data = load_questions(kQuarry, {.keep_impossible = true}, tokenizer);
  ASSERT_EQ(data.samples.size(), 2U);
  EXPECT_EQ(data.samples[1].golds, std::vector<std::string>{""});
  EXPECT_EQ(data.samples[1].gold_ids, std::vector<std::int32_t>{FakeTokenizer::kEnd});
  EXPECT_EQ(data.samples[1].evidence_begin, -1);
}

std::string one_question(const std::string& context, const std::string& answers) {
  return R"({"data":[{"paragraphs":[{"context":")" + context +
         R"(","qas":[{"question":"Q?","id":"q","answers":)" + answers + "}]}]}]}";
}

TEST(Squad, counts_answer_start_in_characters_not_bytes) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto load = [&](const std::string& json) {
    return load_questions(folder.write("a.json", json), {}, tokenizer).samples.at(0);
  };
  EXPECT_EQ(evidence(tokenizer,
                     load(one_question("é 北京 Oslo", R"([{"text":"Oslo","answer_start":5}])"))),
            "Oslo");
  EXPECT_EQ(evidence(tokenizer,
                     load(one_question("é 北京 Oslo", R"([{"text":"Oslo","answer_start":4}])"))),
            "unknown");
  EXPECT_EQ(
      evidence(tokenizer, load(one_question("Oslo", R"([{"text":"Oslo","answer_start":99}])"))),
      "unknown");
}

TEST(Squad, takes_bare_strings_and_numbers_as_answers) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto golds = [&](const std::string& answers) {
    return load_questions(folder.write("a.json", one_question("c", answers)), {}, tokenizer)
        .samples.at(0)
        .golds;
  };
  EXPECT_EQ(golds(R"("c")"), std::vector<std::string>{"c"});
  EXPECT_EQ(golds("[7]"), std::vector<std::string>{"7"});
  EXPECT_EQ(golds(R"(["a","b","a"])"), (std::vector<std::string>{"a", "b"}));
}

TEST(Squad, tolerates_raw_tabs_and_line_feeds_in_strings) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file =
      folder.write("a.json", "\xef\xbb\xbf" + one_question("tab\there\nline", R"("x")") + "\r\n");
  const std::string prompt =
      tokenizer.decode(load_questions(file, {}, tokenizer).samples.at(0).prompt_ids);
  EXPECT_NE(prompt.find("tab\there\nline\n\n"), std::string::npos);
}

TEST(Squad, takes_questions_from_the_articles_in_turn_and_keeps_a_document_together) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write("a.json", R"({"data":[
    {"paragraphs":[{"context":"c","qas":[{"question":"1","id":"a1","answers":"x"},{"question":"2","id":"a2","answers":"x"}]}]},
    {"paragraphs":[{"context":"d","qas":[{"question":"3","id":"b1","answers":"x"}]},
                   {"context":"e","qas":[{"question":"4","id":"b1","answers":"x"}]}]}]})");
  const auto keys = [&](int samples) {
    std::vector<std::string> keys;
    for (const Sample& sample : load_questions(file, {.samples = samples}, tokenizer).samples) {
      keys.push_back(sample.key + " " + sample.cluster_key);
    }
    return keys;
  };
  // The id that occurs twice is made unique.
  EXPECT_EQ(keys(0), (std::vector<std::string>{"a1 article=0", "a2 article=0", "b1 article=1",
                                               "b1#2 article=1"}));
  EXPECT_EQ(keys(2), (std::vector<std::string>{"a1 article=0", "b1 article=1"}));
}

TEST(Squad, says_what_is_wrong_and_where) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto error = [&](const std::string& json) {
    return message_of<DataError>(
        [&] { load_questions(folder.write("a.json", json), {}, tokenizer); });
  };
  EXPECT_NE(error("{}").find("a.json: no known format"), std::string::npos);
  EXPECT_NE(error("[1]").find("a.json, line 1: no JSON object"), std::string::npos);
  EXPECT_NE(error(R"({"data":3})").find("no known format; the first record has data"),
            std::string::npos);
  EXPECT_NE(error(R"({"data":[{"paragraphs":[{"qas":[]}]}]})")
                .find("article 0: paragraph 0: no \"context\""),
            std::string::npos);
  EXPECT_NE(error(one_question("c", "[{}]")).find("no \"text\""), std::string::npos);
  EXPECT_NE(error(one_question("c", "[null]")).find("neither text nor a number"),
            std::string::npos);
  EXPECT_NE(
      error(R"({"data":[{"paragraphs":[{"context":"c","qas":[7]}]}]})").find("no \"question\""),
      std::string::npos);
  EXPECT_NE(error(R"({"data":[]})").find("holds no question"), std::string::npos);
  EXPECT_NE(error("{\n\n\"data\": oops}").find("a.json, line 1: not valid JSON"),
            std::string::npos);
  EXPECT_THROW(load_questions(folder.path() / "none.json", {}, tokenizer), IoError);
  EXPECT_THROW(load_questions(kQuarry, {.samples = -1}, tokenizer), UsageError);
}

}  // namespace
}  // namespace kvscope
