#include "datasets/squad/squad.h"

#include <algorithm>

#include "datasets/questions/language.h"
#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

// The instruction says what kind of answer is wanted: whoever knows it knows half the question.
constexpr PromptPolicy kEnglish = {
    .text = "{context}\n\nAnswer the question with a short phrase from the text.\n{input}",
    .answer_prefix = "Answer:",
    .scorer = "token_f1",
    .cut = AnswerCut::kFirstLine};
constexpr PromptPolicy kChinese = {.text = "{context}\n\n用文中的一个短语回答问题。\n{input}",
                                   .answer_prefix = "答案：",
                                   .scorer = "character_f1",
                                   .cut = AnswerCut::kFirstLine};
constexpr PromptPolicy kCmrc = {.text = kChinese.text,
                                .answer_prefix = kChinese.answer_prefix,
                                .scorer = "cmrc_f1",
                                .cut = AnswerCut::kFirstLine};

bool has_paragraphs(const RecordFile& file) {
  const json& root = file.records.front().value;
  if (file.container != Container::kJsonObject || !has(root, "data")) return false;
  const json& data = root["data"];
  return data.is_array() && (data.empty() || has(data.front(), "paragraphs"));
}

bool is_cmrc(const RecordFile& file) {
  if (!has_paragraphs(file)) return false;
  const json* value = &file.records.front().value["data"];
  for (const char* name : {"paragraphs", "qas"}) {
    if (!value->is_array() || value->empty() || !has(value->front(), name)) return false;
    value = &value->front()[name];
  }
  if (!value->is_array() || value->empty() || !has(value->front(), "id")) return false;
  const json& id = value->front()["id"];
  if (!id.is_string()) return false;
  const auto text = id.get<std::string>();
  return std::ranges::any_of(
      std::initializer_list<const char*>{"DEV_", "TRAIN_", "TRIAL_", "TEST_"},
      [&](const char* start) { return text.starts_with(start); });
}

void read_answers(const json& answers, std::string_view context, Question& question) {
  const json list = answers.is_array() ? answers : json::array({answers});
  for (const json& answer : list) {
    const std::string gold =
        answer.is_object() ? need_text(answer, "text") : scalar_text(answer, "answers");
    if (question.golds.empty() && answer.is_object() && has(answer, "answer_start") &&
        answer["answer_start"].is_number_integer()) {
      // In characters. Where the answer is not there, its place is unknown.
      const std::size_t at = byte_of_character(context, answer["answer_start"].get<long>());
      if (at != std::string_view::npos && context.substr(at).starts_with(gold)) {
        question.evidence = {{at, at + gold.size()}};
      }
    }
    if (std::find(question.golds.begin(), question.golds.end(), gold) == question.golds.end()) {
      question.golds.push_back(gold);
    }
  }
}

Question read_question(const json& qa, const std::string& context, const PromptPolicy& policy) {
  Question question;
  question.policy = &policy;
  question.input = need_text(qa, "question");
  question.id = text_or(qa, "id", {});
  bool impossible = has(qa, "is_impossible") && qa["is_impossible"] == true;
  if (!impossible) {
    read_answers(need(qa, "answers"), context, question);
    // v2 files also mark a question without answer by an empty list alone.
    impossible = question.golds.empty();
  }
  if (impossible) question.golds = {""};
  question.tags = {{"impossible", impossible ? "true" : "false"}};
  return question;
}

void read_article(const json& article, const std::string& cluster, const PromptPolicy* fixed,
                  QuestionSet& set) {
  std::size_t number = 0;
  std::size_t in_article = 0;
  for (const json& paragraph : need_array(article, "paragraphs")) {
    const std::string place = "paragraph " + std::to_string(number++);
    try {
      const std::size_t document = set.add_document(need_text(paragraph, "context"));
      const std::string& context = set.documents[document];
      const PromptPolicy& policy = fixed != nullptr      ? *fixed
                                   : is_chinese(context) ? kChinese
                                                         : kEnglish;
      for (const json& qa : need_array(paragraph, "qas")) {
        Question question = read_question(qa, context, policy);
        question.document = document;
        question.cluster = cluster;
        if (question.id.empty()) question.id = cluster + ":" + std::to_string(in_article);
        ++in_article;
        set.questions.push_back(std::move(question));
      }
    } catch (const DataError& error) {
      throw DataError(place + ": " + error.what());
    }
  }
}

void read_articles(const RecordFile& file, const PromptPolicy* policy, QuestionSet& set) {
  std::size_t number = 0;
  for (const json& article : file.records.front().value["data"]) {
    const std::string name = std::to_string(number++);
    read_part(1, "article " + name, set,
              [&] { read_article(article, "article=" + name, policy, set); });
  }
}

}  // namespace

const FormatInfo kSquadFormat = {
    "squad", "Paragraphs with extractive questions, v1.1 and v2.", "token_f1", has_paragraphs,
    [](const RecordFile& file, QuestionSet& set) { read_articles(file, nullptr, set); }};

const FormatInfo kCmrcFormat = {
    "cmrc2018", "The same in Chinese, with CMRC's scores.", "cmrc_f1", is_cmrc,
    [](const RecordFile& file, QuestionSet& set) { read_articles(file, &kCmrc, set); }};

}  // namespace kvscope
