#include "datasets/leval/leval.h"

#include "datasets/questions/language.h"
#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kShort = {
    .text =
        "Read the document and answer the question about it.\n\nDocument: {context}\n\nAnswer the "
        "question about the document above in as few words as possible.\n\nQuestion: {input}",
    .answer_prefix = "Answer:",
    .scorer = "token_f1",
    .max_new_tokens = 64};
constexpr PromptPolicy kShortZh = {
    .text =
        "阅读下文并回答问题。\n\n{context}\n\n请根据上文用尽量少的词回答问题。\n\n问题：{input}",
    .answer_prefix = "回答：",
    .scorer = "character_f1",
    .max_new_tokens = 64};
constexpr PromptPolicy kChoice = {
    .text =
        "Read the document and answer the question about it.\n\nDocument: {context}\n\nQuestion: "
        "{input}\n\nAnswer with the letter of the right option.",
    .answer_prefix = "Answer:",
    .scorer = "exam_choice",
    .max_new_tokens = 16};
constexpr PromptPolicy kExam = {.text = kShort.text,
                                .answer_prefix = kShort.answer_prefix,
                                .scorer = "exam",
                                .max_new_tokens = 64};
constexpr PromptPolicy kSummary = {
    .text = "Read the document and do what is asked for.\n\nDocument: {context}\n\n{input}",
    .scorer = "rouge_geometric_mean",
    .max_new_tokens = 512};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "instructions") && has(first, "outputs") && has(first, "input");
}

bool has_options(std::string_view question) {
  return question.find("(A)") != std::string_view::npos ||
         question.find("A. ") != std::string_view::npos;
}

const PromptPolicy& policy_of(std::string_view evaluation, std::string_view question,
                              std::string_view document) {
  if (evaluation == "exam") return has_options(question) ? kChoice : kExam;
  if (evaluation == "f1") return is_chinese(document) ? kShortZh : kShort;
  // Answers that L-Eval has judged by people or a language model are compared by ROUGE.
  return kSummary;
}

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  const json& instructions = need_array(record, "instructions");
  const json& outputs = need_array(record, "outputs");
  if (instructions.size() != outputs.size()) {
    throw DataError(std::to_string(instructions.size()) + " instructions but " +
                    std::to_string(outputs.size()) + " outputs");
  }
  const std::string evaluation = text_or(record, "evaluation", "f1");
  const std::size_t document = set.add_document(need_text(record, "input"));
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    Question question;
    question.document = document;
    question.task = text_or(record, "source", file.path.stem().string());
    question.input = scalar_text(instructions[i], "instructions");
    question.golds = texts(outputs[i], "outputs");
    question.policy = &policy_of(evaluation, question.input, set.documents[document]);
    question.tags["evaluation"] = evaluation;
    set.questions.push_back(std::move(question));
  }
}

}  // namespace

const FormatInfo kLEvalFormat = {
    "leval", "Documents with several instructions each.", "token_f1", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
