// The prompt is the record's own, at its character offsets; too long ones lose the document's end.
// The answers of the test set are not published: such questions have no golds.
#include "datasets/zeroscrolls/zeroscrolls.h"

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr std::string_view kText = "{context}{input}";

constexpr PromptPolicy policy(std::string_view scorer, int tokens) {
  return {
      .text = kText, .scorer = scorer, .max_new_tokens = tokens, .truncation = Truncation::kHead};
}

struct Task {
  std::string_view name;
  PromptPolicy policy;
};
constexpr Task kTasks[] = {
    {"gov_report", policy("rouge_geometric_mean", 1024)},
    {"summ_screen_fd", policy("rouge_geometric_mean", 512)},
    {"qmsum", policy("rouge_geometric_mean", 512)},
    {"squality", policy("rouge_geometric_mean", 512)},
    {"qasper", policy("token_f1", 128)},
    {"narrative_qa", policy("token_f1", 64)},
    {"musique", policy("token_f1", 32)},
    {"quality", policy("first_choice", 10)},
};
constexpr PromptPolicy kOther = policy("token_f1", 128);

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "document_start_index") && has(first, "query_start_index");
}

std::size_t offset(const json& record, const char* name, const std::string& input) {
  const json& value = need(record, name);
  const std::size_t at =
      value.is_number_integer() ? byte_of_character(input, value.get<long>()) : std::string::npos;
  if (at == std::string::npos) {
    throw DataError("\"" + std::string(name) + "\" is no place in the input");
  }
  return at;
}

void read_record(const json& record, const RecordFile& file, QuestionSet& set) {
  const std::string input = need_text(record, "input");
  const std::size_t begin = offset(record, "document_start_index", input);
  const std::size_t end = offset(record, "document_end_index", input);
  if (begin > end || end > offset(record, "query_start_index", input)) {
    throw DataError("the query does not follow the document");
  }
  Question question;
  question.task = file.path.stem().string();
  question.policy = &kOther;
  for (const Task& known : kTasks) {
    if (known.name == question.task) question.policy = &known.policy;
  }
  question.id = text_or(record, "pid", text_or(record, "id", {}));
  question.document = set.shared_document(input.substr(0, end));
  question.input = input.substr(end);
  question.truncation_mark = text_or(record, "truncation_seperator", {});
  if (has(record, "output")) question.golds = need_texts(record, "output");
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kZeroScrollsFormat = {
    "zeroscrolls", "Whole prompts with the places of document and query.", "token_f1", matches,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, file, set); });
    }};

}  // namespace kvscope
