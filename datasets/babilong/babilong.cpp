#include "datasets/babilong/babilong.h"

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kPolicy = {
    .text =
        "The text below tells, among other things, where people and things are. Answer the "
        "question about them in one short sentence.\n\n{context}\n\nQuestion: {input}",
    .answer_prefix = "Answer:",
    .scorer = "babilong",
    .max_new_tokens = 20};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "input") && has(first, "question") && has(first, "target");
}

// qa5 asks who gave what to whom; the labels of the others are rooms, the scorer's default.
const std::vector<std::string>& labels_of(std::string_view task) {
  static const std::vector<std::string> kGivers = {"Bill",  "Fred",     "Jeff", "Mary",
                                                   "apple", "football", "milk"};
  static const std::vector<std::string> kNone;
  return task.starts_with("qa5") ? kGivers : kNone;
}

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  Question question;
  question.task = file.path.stem().string();
  question.policy = &kPolicy;
  question.document = set.shared_document(need_text(record, "input"));
  question.input = need_text(record, "question");
  question.input.erase(question.input.find_last_not_of(' ') + 1);
  question.golds = need_texts(record, "target");
  question.classes = labels_of(question.task);
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kBabiLongFormat = {
    "babilong", "Facts among other text, and where someone or something is.", "babilong", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
