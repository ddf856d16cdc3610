#include "datasets/longbench_v2/longbench_v2.h"

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kPolicy = {
    .text =
        "Read the text and answer the question about it.\n\n{context}\n\nQuestion: {input}\n"
        "Options:\n{options}\n\nWrite your answer as: The correct answer is (letter).",
    .answer_prefix = "The correct answer is",
    .scorer = "first_choice",
    .max_new_tokens = 16};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "choice_A") && has(first, "context") && has(first, "question");
}

void read_record(const json& record, QuestionSet& set) {
  Question question;
  question.policy = &kPolicy;
  question.id = need_text(record, "_id");
  question.input = need_text(record, "question");
  question.document = set.shared_document(need_text(record, "context"));
  for (const char* name : {"choice_A", "choice_B", "choice_C", "choice_D"}) {
    question.options.push_back(need_text(record, name));
  }
  const std::string answer = need_text(record, "answer");
  if (answer.size() != 1 || answer[0] < 'A' || answer[0] > 'D') {
    throw DataError("\"answer\" is no letter from A to D");
  }
  question.golds = {answer};
  for (const char* tag : {"domain", "sub_domain", "difficulty", "length"}) {
    if (has(record, tag)) question.tags[tag] = need_text(record, tag);
  }
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kLongBenchV2Format = {
    "longbench_v2", "Questions with four options about very long texts.", "first_choice", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, set); });
    }};

}  // namespace kvscope
