// Each turn is a question of its own about the shared context (SCBench's "same context, different
// query"): answers are not fed back.
#include "datasets/scbench/scbench.h"

#include "datasets/questions/options.h"
#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::string_view kText =
    "Read the text and answer what follows it.\n\n{context}\n\n{input}";
constexpr std::string_view kChoiceText =
    "Read the text and answer the question about it.\n\n{context}\n\nQuestion: "
    "{input}\n{options}\n\n"
    "Answer with the letter of the right option.";

constexpr PromptPolicy policy(std::string_view scorer, int tokens, std::string_view text = kText) {
  return {.text = text, .answer_prefix = "Answer:", .scorer = scorer, .max_new_tokens = tokens};
}

struct Task {
  std::string_view name;
  PromptPolicy policy;
};
constexpr Task kTasks[] = {
    {"scbench_kv", policy("whole_word", 150)},
    {"scbench_prefix_suffix", policy("whole_word", 150)},
    {"scbench_vt", policy("string_match_all", 30)},
    {"scbench_qa_eng", policy("token_f1_longbench", 40)},
    {"scbench_qa_chn", policy("character_f1", 40)},
    {"scbench_choice_eng", policy("first_choice", 40, kChoiceText)},
    {"scbench_mf", policy("first_value", 5)},
    {"scbench_many_shot", policy("first_choice", 10)},
    {"scbench_summary", policy("rouge_l_sum", 800)},
    {"scbench_passkey", policy("first_number", 15)},
};
constexpr PromptPolicy kOther = policy("token_f1_longbench", 64);
constexpr PromptPolicy kOtherChoice = policy("first_choice", 40, kChoiceText);

const PromptPolicy& policy_of(std::string_view task, bool options) {
  for (const Task& known : kTasks) {
    if (known.name == task) return known.policy;
  }
  return options ? kOtherChoice : kOther;
}

bool matches(const RecordFile& file) { return has(file.records.front().value, "multi_turns"); }

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  const std::string task = file.path.stem().string();
  const std::size_t shared =
      set.add_document(text_or(record, "context", text_or(record, "input", {})));
  std::size_t turn = 0;
  for (const json& entry : need_array(record, "multi_turns")) {
    Question question;
    question.document = shared;
    question.task = task;
    question.input = need_text(entry, "input");
    question.golds = need_texts(entry, "answer");
    if (has(entry, "options")) question.options = texts(entry["options"], "options");
    question.policy = &policy_of(task, !question.options.empty());
    if (!question.options.empty() && question.policy->scorer == "first_choice") {
      question.golds = {
          option_letter(option_index(question.golds.at(0), question.options), question.options)};
    }
    question.tags["turn"] = std::to_string(++turn);
    set.questions.push_back(std::move(question));
  }
}

}  // namespace

const FormatInfo kScBenchFormat = {
    "scbench", "Several questions about one context.", "token_f1_longbench", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
