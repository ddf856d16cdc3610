#include "datasets/kvpress/kvpress.h"

#include <charconv>

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

// kvpress compresses the context and appends question and prefix as they are, without a chat
// template.
constexpr PromptPolicy kPolicy = {
    .text = "{context}{input}", .scorer = "string_match_all", .max_new_tokens = 50};
constexpr PromptPolicy kQa = {
    .text = "{context}{input}", .scorer = "string_match_part", .max_new_tokens = 50};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "question") && has(first, "answer_prefix") && has(first, "answer") &&
         first.contains("max_new_tokens");
}

void read_record(const json& record, QuestionSet& set) {
  Question question;
  question.task = text_or(record, "task", {});
  question.policy = question.task.starts_with("qa") ? &kQa : &kPolicy;
  question.document = set.shared_document(text_or(record, "context", {}));
  question.input = need_text(record, "question");
  question.answer_prefix = need_text(record, "answer_prefix");
  question.answer_prefix.erase(0, question.answer_prefix.find_first_not_of(" \n"));
  question.golds = answers_of(need(record, "answer"), "answer");
  const std::string tokens = need_text(record, "max_new_tokens");
  std::from_chars(tokens.data(), tokens.data() + tokens.size(), question.max_new_tokens);
  if (question.max_new_tokens < 1 || question.max_new_tokens > 100'000) {
    throw DataError("\"max_new_tokens\" is no number of tokens");
  }
  set.questions.push_back(std::move(question));
}

void read(const RecordFile& file, QuestionSet& set) {
  read_records(file.records, set, [&](const json& record) { read_record(record, set); });
  const bool results = has(file.records.front().value, "predicted_answer");
  if (results) set.no_questions = "results of a run, without contexts: see kvscope score-answers";
}

}  // namespace

const FormatInfo kKvPressFormat = {"kvpress", "A table of context, question and answer.",
                                   "string_match_all", matches, read};

}  // namespace kvscope
