#include "datasets/quality/quality.h"

#include "datasets/questions/options.h"
#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kPolicy = {
    .text =
        "Read the story and answer the question that follows it.\n\n{context}\n\nQuestion: "
        "{input}\n{options}\n\nAnswer with the letter of the right option.",
    .answer_prefix = "Answer:",
    .scorer = "first_choice",
    .max_new_tokens = 8};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "article") && has(first, "questions") && first["questions"].is_array();
}

void read_record(const json& record, QuestionSet& set) {
  // The same article stands on a line for each writer of questions.
  const std::size_t document = set.shared_document(need_text(record, "article"));
  const std::string name = text_or(record, "set_unique_id", text_or(record, "article_id", {}));
  std::size_t number = 0;
  for (const json& entry : need_array(record, "questions")) {
    Question question;
    question.policy = &kPolicy;
    question.document = document;
    question.id = text_or(entry, "question_unique_id", name + ":" + std::to_string(number));
    question.input = need_text(entry, "question");
    for (const json& option : need_array(entry, "options")) {
      question.options.push_back(scalar_text(option, "options"));
    }
    ++number;
    if (has(entry, "gold_label")) {  // the test set has none
      const json& label = entry["gold_label"];
      if (!label.is_number_integer() || label.get<long>() < 1) {
        throw DataError("\"gold_label\" is no number from 1");
      }
      question.golds = {option_letter(label.get<std::size_t>() - 1, question.options)};
    }
    if (has(entry, "difficult")) question.tags["difficult"] = need_text(entry, "difficult");
    set.questions.push_back(std::move(question));
  }
}

}  // namespace

const FormatInfo kQualityFormat = {
    "quality", "Stories with questions of four options.", "first_choice", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, set); });
    }};

}  // namespace kvscope
