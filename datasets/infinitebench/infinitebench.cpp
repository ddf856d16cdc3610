#include "datasets/infinitebench/infinitebench.h"

#include "datasets/questions/options.h"
#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::string_view kFindText =
    "Something important is hidden in the text below. Find it and remember "
    "it.\n\n{context}\n\n{input}";
constexpr std::string_view kKvText =
    "Find the value of the given key in the JSON object below.\n\n{context}\n\n{input}";
constexpr std::string_view kQaText =
    "Read the book below and answer the question about it.\n\n{context}\n\nQuestion: {input}";
constexpr std::string_view kQaTextZh =
    "阅读下面的书并回答问题。\n\n{context}\n\n请用尽量少的词回答。\n\n问题：{input}";
constexpr std::string_view kChoiceText =
    "Read the text below and answer the question about it.\n\n{context}\n\nQuestion: "
    "{input}\n{options}"
    "\n\nAnswer with the letter of the right option.";
constexpr std::string_view kSumText =
    "Summarise the book below.\n\n{context}\n\nNow write a summary of the book.";
constexpr std::string_view kDialogueText =
    "Below is a dialogue in which one name is masked as $$MASK$$.\n\n{context}\n\nWhich name is "
    "masked? Write the name and nothing else.";
constexpr std::string_view kPlainText = "{context}\n\n{input}";

constexpr PromptPolicy policy(std::string_view text, std::string_view prefix,
                              std::string_view scorer, int tokens) {
  return {.text = text, .answer_prefix = prefix, .scorer = scorer, .max_new_tokens = tokens};
}

struct Task {
  std::string_view name;
  PromptPolicy policy;
};
constexpr Task kTasks[] = {
    {"passkey", policy(kFindText, "The pass key is", "first_number", 6)},
    {"number_string", policy(kFindText, "The sequence of digits is", "first_number", 12)},
    {"kv_retrieval", policy(kKvText, "", "whole_word", 50)},
    {"longbook_qa_eng", policy(kQaText, "Answer:", "token_f1_longbench", 40)},
    {"longbook_qa_chn", policy(kQaTextZh, "回答：", "character_f1", 40)},
    {"longbook_choice_eng",
     policy(kChoiceText, "The letter of the correct answer is", "choice_letter_or_text", 40)},
    {"longbook_sum_eng", policy(kSumText, "Summary:", "rouge_l_sum", 1200)},
    {"longdialogue_qa_eng", policy(kDialogueText, "The name is", "whole_capital_word", 40)},
    {"code_debug", policy(kChoiceText, "Answer:", "code_debug", 5)},
    {"code_run", policy(kPlainText, "The return value is:", "last_integer", 5)},
    {"math_find", policy(kPlainText, "", "first_value", 3)},
    {"math_calc", policy(kPlainText, "", "leading_values", 30000)},
};
constexpr PromptPolicy kOther = policy(kQaText, "Answer:", "token_f1_longbench", 40);

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "context") && has(first, "input") && has(first, "answer");
}

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  Question question;
  question.task = file.path.stem().string();
  question.policy = &kOther;
  for (const Task& known : kTasks) {
    if (known.name == question.task) question.policy = &known.policy;
  }
  question.id = text_or(record, "id", {});
  question.document = set.shared_document(need_text(record, "context"));
  question.input = text_or(record, "input", {});
  if (has(record, "options")) question.options = texts(record["options"], "options");
  for (const json& answer :
       record["answer"].is_array() ? record["answer"] : json::array({record["answer"]})) {
    question.golds.push_back(scalar_text(answer, "answer"));
  }
  if (question.golds.empty()) throw DataError("no answer");
  // Its scorers want the letter and the option's text, code_debug's the other way round.
  if (question.task == "longbook_choice_eng") {
    question.golds.insert(
        question.golds.begin(),
        option_letter(option_index(question.golds.front(), question.options), question.options));
  } else if (question.task == "code_debug") {
    question.golds.push_back(
        option_letter(option_index(question.golds.front(), question.options), question.options));
  }
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kInfiniteBenchFormat = {
    "infinitebench", "Retrieval, books, dialogue, code and numbers beyond 100 K tokens.",
    "token_f1_longbench", matches, [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
