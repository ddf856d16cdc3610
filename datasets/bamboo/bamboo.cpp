#include "datasets/bamboo/bamboo.h"

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

// altqa's record is the whole prompt.
constexpr PromptPolicy kWhole = {.text = "{context}{input}",
                                 .answer_prefix = "Answer:",
                                 .scorer = "exact_match",
                                 .max_new_tokens = 16,
                                 .cut = AnswerCut::kFirstLine};
constexpr PromptPolicy kChoice = {
    .text =
        "Read the text and answer the question about it.\n\n{context}\n\nQuestion: {input}\n"
        "{options}\n\nAnswer with the letter of the right option.",
    .answer_prefix = "Answer:",
    .scorer = "first_choice",
    .max_new_tokens = 8};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "content") && has(first, "answer");
}

void read_choice(const json& record, const std::string& content, Question& question) {
  question.policy = &kChoice;
  question.input = need_text(record, "question");
  for (const json& option : need_array(record, "options")) {
    question.options.push_back(scalar_text(option, "options"));
  }
  // The letter counts, also where the options came apart or have evidence among them, as some have.
  const std::string answer = need_text(record, "answer");
  if (answer.size() != 1 || answer[0] < 'A' || answer[0] > 'D') {
    throw DataError("\"answer\" is no letter from A to D");
  }
  question.golds = {answer};
  if (!has(record, "evidence")) return;
  const std::string evidence = need_text(record, "evidence");
  const std::size_t begin = evidence.find_first_not_of(" \n\t");
  if (begin == std::string::npos) return;
  const std::string bare = evidence.substr(begin, evidence.find_last_not_of(" \n\t") - begin + 1);
  if (const std::size_t at = content.find(bare); at != std::string::npos) {
    question.evidence = {{at, at + bare.size()}};
  }
}

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  constexpr std::string_view kQuestion = "\n\nQuestion:";
  std::string content = need_text(record, "content");
  Question question;
  question.task = file.path.stem().string();
  if (has(record, "options")) {
    read_choice(record, content, question);
  } else {
    question.policy = &kWhole;
    question.golds = need_texts(record, "answer");
    const std::size_t at = content.rfind(kQuestion);
    if (at == std::string::npos) throw DataError("no question at the end of \"content\"");
    question.input = content.substr(at);
    question.input.erase(question.input.find_last_not_of(" \n") + 1);
    content.resize(at);
  }
  question.document = set.shared_document(std::move(content));
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kBambooFormat = {
    "bamboo", "Questions about papers, meetings and altered articles.", "first_choice", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
