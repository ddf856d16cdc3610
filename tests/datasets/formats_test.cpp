// Every format's fixture: recognised, read, and turned into the prompt and golds that its authors'
// program would make of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "datasets/questions/format.h"
#include "datasets/questions/inspect.h"
#include "datasets/questions/load_questions.h"
#include "metrics/quality/scorers.h"
#include "runner/base/error.h"
#include "tests/datasets/fake_tokenizer.h"
#include "tests/datasets/temp_file.h"

namespace kvscope {
namespace {

const std::string kFixtures = KVSCOPE_SOURCE_DIR "/tests/datasets/fixtures/";
using Golds = std::vector<std::string>;

struct Expected {
  const char* path;
  const char* format;
  std::size_t samples;
  std::size_t documents;
  const char* scorer;
};

class Fixtures : public testing::TestWithParam<Expected> {};

TEST_P(Fixtures, are_recognised_and_counted) {
  const Expected& expected = GetParam();
  const Inspection found = inspect_questions(kFixtures + expected.path, nullptr, {});
  EXPECT_EQ(found.format, expected.format);
  EXPECT_EQ(found.samples, expected.samples);
  EXPECT_EQ(found.documents, expected.documents);
  EXPECT_EQ(found.skipped.size(), 0U);
  EXPECT_FALSE(found.lengths.has_value());
  for (const auto& [metric, count] : found.metrics) {
    EXPECT_EQ(metric, expected.scorer);
    EXPECT_NE(find_scorer(metric), nullptr) << metric;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Fixtures,
    testing::Values(
        Expected{"babilong/qa1_1k.json", "babilong", 1, 1, "babilong"},
        Expected{"hotpotqa/hotpot_dev_distractor_v1.json", "hotpotqa", 1, 1, "token_f1_hotpotqa"},
        Expected{"infinitebench/kv_retrieval.jsonl", "infinitebench", 1, 1, "whole_word"},
        Expected{"infinitebench/longbook_choice_eng.jsonl", "infinitebench", 1, 1,
                 "choice_letter_or_text"},
        Expected{"infinitebench/number_string.jsonl", "infinitebench", 1, 1, "first_number"},
        Expected{"infinitebench/passkey.jsonl", "infinitebench", 1, 1, "first_number"},
        Expected{"kvpress/ruler__4096__model-a__snapkv__0.50/predictions.csv", "kvpress", 1, 1,
                 "string_match_all"},
        Expected{"leval/quality.jsonl", "leval", 2, 1, "exam_choice"},
        Expected{"leval/scientific_qa.jsonl", "leval", 1, 1, "token_f1"},
        Expected{"longbench/lcc.jsonl", "longbench", 1, 1, "edit_similarity"},
        Expected{"longbench/multifieldqa_en.jsonl", "longbench", 2, 1, "token_f1_longbench"},
        Expected{"longbench/multifieldqa_zh.jsonl", "longbench", 1, 1, "jieba_f1"},
        Expected{"longbench/passage_retrieval_en.jsonl", "longbench", 1, 1, "retrieval_share"},
        Expected{"longbench/trec.jsonl", "longbench", 1, 1, "classification"},
        Expected{"longbench_v2/data.json", "longbench_v2", 1, 1, "first_choice"},
        Expected{"lost_in_the_middle/kv-retrieval.jsonl", "lost_in_the_middle_kv", 1, 1,
                 "best_subspan_em"},
        Expected{"lost_in_the_middle/nq-open-2_total_documents_gold_at_1.jsonl",
                 "lost_in_the_middle_qa", 1, 1, "best_subspan_em"},
        Expected{"narrativeqa", "narrativeqa", 1, 1, "token_f1"},
        Expected{"niah/config.json", "niah_config", 15, 0, "rouge_l"},
        Expected{"niah/results", "niah_results", 1, 0, "rouge_l"},
        Expected{"pg19", "pg19", 0, 1, ""},
        Expected{"qasper/qasper-dev-v0.3.json", "qasper", 2, 1, "token_f1"},
        Expected{"quality/QuALITY.v1.0.1.htmlstripped.dev", "quality", 1, 1, "first_choice"},
        Expected{"ruler/4096/cwe/validation.jsonl", "ruler", 1, 1, "string_match_all"},
        Expected{"ruler/4096/niah_multiquery/validation.jsonl", "ruler", 1, 1, "string_match_all"},
        Expected{"ruler/4096/qa_1/validation.jsonl", "ruler", 1, 1, "string_match_part"},
        Expected{"scbench/scbench_choice_eng.jsonl", "scbench", 1, 1, "first_choice"},
        Expected{"scbench/scbench_kv.jsonl", "scbench", 2, 1, "whole_word"},
        Expected{"squad/dev-v2.0.json", "squad", 2, 1, "token_f1"},
        Expected{"zeroscrolls/narrative_qa.jsonl", "zeroscrolls", 1, 1, "token_f1"}),
    [](const auto& info) {
      std::string name = info.param.path;
      for (char& c : name) {
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      }
      return name;
    });

Sample first_sample(const std::string& path, const QuestionOptions& options = {}) {
  static const FakeTokenizer kTokenizer;
  return load_questions(kFixtures + path, options, kTokenizer).samples.at(0);
}

std::string text(std::span<const std::int32_t> ids) { return FakeTokenizer().decode(ids); }

std::string question(const Sample& sample) {
  if (sample.question_begin < 0) return "unknown";
  return text(std::span(sample.prompt_ids).subspan(std::size_t(sample.question_begin)));
}

std::string evidence(const Sample& sample) {
  if (sample.evidence_begin < 0) return "unknown";
  return text(std::span(sample.prompt_ids)
                  .subspan(std::size_t(sample.evidence_begin),
                           std::size_t(sample.evidence_end - sample.evidence_begin)));
}

TEST(LongBench, puts_the_instruction_before_and_after_and_the_question_last) {
  const Sample sample = first_sample("longbench/multifieldqa_en.jsonl");
  const std::string prompt = text(sample.prompt_ids);
  EXPECT_EQ(prompt.find("<|im_start|>user\nRead the text and answer"), 0U);
  EXPECT_TRUE(prompt.ends_with("Question: Who bought the pears?"));
  EXPECT_EQ(question(sample).find("Answer the question about the text above"), 0U);
  EXPECT_EQ(sample.golds, (Golds{"Osric Vane", "the harbour master"}));
  EXPECT_EQ(sample.max_new_tokens, 64);
  EXPECT_EQ(sample.answer_cut, AnswerCut::kNone);
  EXPECT_EQ(sample.tags.at("length_bin"), "0-4k");
}

TEST(LongBench, gives_examples_and_code_without_a_chat_template) {
  const Sample trec = first_sample("longbench/trec.jsonl");
  EXPECT_EQ(text(trec.prompt_ids).find("Continue in the manner"), 0U);
  EXPECT_TRUE(text(trec.prompt_ids).ends_with("lamp?\nType:"));
  EXPECT_TRUE(trec.prefix_ids.empty());
  EXPECT_EQ(trec.answer_cut, AnswerCut::kFirstLine);
  EXPECT_EQ(trec.classes.size(), 4U);
  EXPECT_EQ(text(first_sample("longbench/lcc.jsonl").prompt_ids),
            "Write the next line of the code.\ndef add(a, b):\n    return a + b\n\ndef twice(x):\n"
            "Next line:\n");
}

TEST(LongBench, takes_prompts_and_lengths_of_a_user) {
  const TempFolder folder;
  QuestionOptions options;
  options.prompts.read_texts(folder.write(
      "dataset2prompt.json", R"({"trec": "T {context} {input}", "lcc": "{context}"})"));
  options.prompts.read_lengths(folder.write("dataset2maxlen.json", R"({"trec": 5})"));
  const Sample trec = first_sample("longbench/trec.jsonl", options);
  EXPECT_EQ(text(trec.prompt_ids).find("T Question: Who keeps the light?"), 0U);
  EXPECT_EQ(trec.max_new_tokens, 5);
  // Of a task that the file does not name nothing changes.
  const Sample other = first_sample("longbench/multifieldqa_en.jsonl", options);
  EXPECT_EQ(other.max_new_tokens, 64);
  options = {};
  options.prompts.read_texts(folder.write("all.txt", "{context}\nQ {question}"));
  EXPECT_TRUE(text(first_sample("longbench/multifieldqa_en.jsonl", options).prompt_ids)
                  .ends_with("\nQ Who bought the pears?"));
  EXPECT_THROW(options.prompts.read_texts(folder.write("bad.txt", "no place")), UsageError);
  EXPECT_THROW(options.prompts.read_lengths(folder.write("bad.json", R"({"a": "b"})")), DataError);
}

TEST(Ruler, takes_the_last_line_as_question_and_the_prefix_as_the_answers_start) {
  const Sample sample = first_sample("ruler/4096/niah_single_1/validation.jsonl");
  EXPECT_EQ(question(sample), "Which secret figure belongs to brave-otter?");
  EXPECT_TRUE(text(sample.prefix_ids).ends_with("The secret figure for brave-otter is"));
  EXPECT_EQ(text(sample.gold_ids), " 4827193");
  EXPECT_EQ(sample.max_new_tokens, 128);
  EXPECT_EQ(sample.tags.at("task"), "niah_single_1");
}

TEST(Ruler, accepts_a_prefix_at_the_inputs_end_and_lm_evals_name_of_it) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const Dataset data = load_questions(
      folder.write(
          "vt.jsonl",
          R"({"index":0,"input":"Text\nQ? Answer: x","outputs":["a","b"],"gen_prefix":" Answer: x"})"),
      {}, tokenizer);
  EXPECT_EQ(question(data.samples.at(0)), "Q?");
  EXPECT_TRUE(text(data.samples[0].prefix_ids).ends_with("\nAnswer: x"));
  EXPECT_EQ(data.samples[0].golds, (Golds{"a", "b"}));
  EXPECT_EQ(data.samples[0].max_new_tokens, 30);
}

TEST(Ruler, reads_all_tasks_of_a_folder) {
  const FakeTokenizer tokenizer;
  const Dataset data = load_questions(kFixtures + "ruler/4096", {}, tokenizer);
  EXPECT_EQ(data.name, "4096");
  EXPECT_EQ(data.samples.size(), 7U);
  EXPECT_EQ(inspect_questions(kFixtures + "ruler", nullptr, {}).samples, 7U);
}

TEST(ZeroScrolls, keeps_the_question_when_the_document_is_cut_and_has_no_golds) {
  const Sample whole = first_sample("zeroscrolls/narrative_qa.jsonl");
  EXPECT_EQ(question(whole), "Question:\nWho bought the pears?\n\nAnswer:\n");
  EXPECT_TRUE(whole.golds.empty());
  EXPECT_TRUE(whole.gold_ids.empty());
  const Sample cut = first_sample("zeroscrolls/narrative_qa.jsonl", {.max_prompt_tokens = 150});
  const std::string prompt = text(cut.prompt_ids);
  EXPECT_EQ(prompt.find("<|im_start|>user\nRead the tale.\n\nTale:\nMara Quill"), 0U);
  EXPECT_NE(prompt.find("... [The rest of the tale is omitted]"), std::string::npos);
  EXPECT_EQ(question(cut), question(whole));
  EXPECT_EQ(cut.prompt_ids.size(), 150 + std::string("xuser\n").size());
}

TEST(HotpotQa, names_the_tokens_of_every_supporting_sentence) {
  const Sample sample = first_sample("hotpotqa/hotpot_dev_distractor_v1.json");
  EXPECT_EQ(sample.evidence_begin, -1);
  const std::string spans = sample.tags.at("evidence");
  ASSERT_NE(spans.find(','), std::string::npos);
  const auto begin = std::stoul(spans);
  const auto end = std::stoul(spans.substr(spans.find('-') + 1));
  EXPECT_EQ(text(std::span(sample.prompt_ids).subspan(begin, end - begin)),
            "The dory was renamed Patience.");
}

TEST(Qasper, joins_spans_and_finds_the_evidence) {
  const Sample sample = first_sample("qasper/qasper-dev-v0.3.json");
  EXPECT_EQ(sample.golds, Golds{"cotton"});
  EXPECT_EQ(evidence(sample), "The wick is cotton.");
}

TEST(LostInTheMiddle, knows_the_gold_passage_and_pair) {
  const Sample qa = first_sample("lost_in_the_middle/nq-open-2_total_documents_gold_at_1.jsonl");
  EXPECT_EQ(evidence(qa).find("Mara Quillfeather"), 0U);
  EXPECT_EQ(qa.tags.at("gold_document"), "2");
  const Sample kv = first_sample("lost_in_the_middle/kv-retrieval.jsonl");
  EXPECT_EQ(evidence(kv),
            "\"6cad4a26-0f21-4d3a-a90c-f28c1fb17c23\": \"39263059-a170-4a09-a953-0fd6f29d0da9\"");
}

TEST(Options, are_shown_with_letters_and_the_gold_is_a_letter) {
  const Sample quality = first_sample("quality/QuALITY.v1.0.1.htmlstripped.dev");
  EXPECT_NE(text(quality.prompt_ids).find("end?\nA. Grey\nB. Yellow\nC. Green\nD. Brass\n"),
            std::string::npos);
  EXPECT_EQ(quality.golds, Golds{"B"});
  EXPECT_EQ(first_sample("infinitebench/longbook_choice_eng.jsonl").golds, (Golds{"B", "Pears"}));
  EXPECT_EQ(first_sample("scbench/scbench_choice_eng.jsonl").golds, Golds{"B"});
  EXPECT_EQ(first_sample("longbench_v2/data.json").golds, Golds{"B"});
}

TEST(Questions, of_one_document_share_it_as_prefix_and_are_one_cluster) {
  const FakeTokenizer tokenizer;
  const Dataset data = load_questions(kFixtures + "scbench/scbench_kv.jsonl", {}, tokenizer);
  ASSERT_EQ(data.samples.size(), 2U);
  EXPECT_EQ(data.samples[0].cluster_key, data.samples[1].cluster_key);
  const auto begin = std::size_t(data.samples[0].question_begin);
  EXPECT_EQ(data.samples[0].question_begin, data.samples[1].question_begin);
  EXPECT_TRUE(std::equal(data.samples[0].prompt_ids.begin(),
                         data.samples[0].prompt_ids.begin() + std::ptrdiff_t(begin),
                         data.samples[1].prompt_ids.begin()));
}

TEST(Questions, are_cut_in_the_middle_and_lost_evidence_is_said) {
  const FakeTokenizer tokenizer;
  const Dataset data =
      load_questions(kFixtures + "lost_in_the_middle/nq-open-2_total_documents_gold_at_1.jsonl",
                     {.max_prompt_tokens = 240}, tokenizer);
  ASSERT_EQ(data.notes.size(), 1U);
  EXPECT_EQ(
      data.notes[0],
      "1 of 1 prompts were cut to 240 tokens; 1 of them lost the passage that holds the answer");
  EXPECT_TRUE(question(data.samples.at(0)).ends_with("Question: who bought the pears"));
  EXPECT_EQ(data.samples[0].tags.at("cut"), "evidence");
  EXPECT_EQ(data.samples[0].evidence_begin, -1);
}

TEST(LvEval, is_told_from_longbench_by_its_keywords) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write(
      "hotpotwikiqa_mixup_16k.jsonl",
      R"({"input":"Q?","context":"c","answers":["a"],"answer_keywords":"a","confusing_facts":""})");
  EXPECT_EQ(inspect_questions(file, nullptr, {}).format, "lveval");
  EXPECT_EQ(load_questions(file, {}, tokenizer).samples.at(0).scorer, "token_f1_longbench");
}

TEST(Cmrc, is_told_from_squad_by_its_ids) {
  const TempFolder folder;
  const FakeTokenizer tokenizer;
  const auto file = folder.write(
      "dev.json",
      R"({"data":[{"paragraphs":[{"context":"猫叫算盘。","qas":[{"id":"DEV_0_QUERY_0","question":"猫叫什么？","answers":[{"text":"算盘","answer_start":2}]}]}]}]})");
  const Sample sample = load_questions(file, {}, tokenizer).samples.at(0);
  EXPECT_EQ(sample.scorer, "cmrc_f1");
  EXPECT_EQ(evidence(sample), "算盘");
  EXPECT_TRUE(text(sample.prefix_ids).ends_with("答案："));
}

TEST(Questions, say_where_results_and_texts_belong) {
  const FakeTokenizer tokenizer;
  const auto error = [&](const std::string& path) {
    return message_of<DataError>([&] { load_questions(kFixtures + path, {}, tokenizer); });
  };
  EXPECT_NE(error("niah/results").find("see kvscope score-answers"), std::string::npos);
  EXPECT_NE(error("niah/config.json").find("task needle"), std::string::npos);
  EXPECT_NE(error("longbench/pred/model-a/result.json").find("no known format"), std::string::npos);
}

}  // namespace
}  // namespace kvscope
