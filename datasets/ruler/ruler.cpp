#include "datasets/ruler/ruler.h"

#include <algorithm>

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The prompt is the record's own; its last line is the question.
constexpr PromptPolicy policy(std::string_view scorer, int tokens) {
  return {.text = "{context}{input}", .scorer = scorer, .max_new_tokens = tokens};
}
constexpr PromptPolicy kNiah = policy("string_match_all", 128);
constexpr PromptPolicy kVt = policy("string_match_all", 30);
constexpr PromptPolicy kCwe = policy("string_match_all", 120);
constexpr PromptPolicy kFwe = policy("string_match_all", 50);
constexpr PromptPolicy kQa = policy("string_match_part", 32);

const PromptPolicy& policy_of(std::string_view task) {
  if (task.starts_with("vt")) return kVt;
  if (task.starts_with("cwe")) return kCwe;
  if (task.starts_with("fwe")) return kFwe;
  if (task.starts_with("qa")) return kQa;
  return kNiah;
}

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "input") && has(first, "outputs") && !has(first, "instructions") &&
         !has(first, "pred");
}

// <length>/<task>/validation.jsonl, or a file named like its task.
std::string task_of(const fs::path& file) {
  const std::string stem = file.stem().string();
  if (stem == "validation" || stem == "test") {
    return fs::absolute(file).parent_path().filename().string();
  }
  return stem;
}

std::string_view without_end(std::string_view text, std::string_view end) {
  return !end.empty() && text.ends_with(end) ? text.substr(0, text.size() - end.size()) : text;
}

void read_record(const json& record, const std::string& task, QuestionSet& set) {
  Question question;
  question.task = task;
  question.policy = &policy_of(task);
  const std::string whole = need_text(record, "input");
  // lm-eval's copy has another name. Older files still have the prefix at the input's end.
  std::string prefix = text_or(record, "answer_prefix", text_or(record, "gen_prefix", {}));
  std::string_view input = without_end(whole, prefix);
  input = input.substr(0, input.find_last_not_of(" \n") + 1);
  const std::size_t line_end = input.rfind('\n');
  const std::size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
  question.document = set.shared_document(std::string(input.substr(0, begin)));
  question.input = input.substr(begin);
  prefix.erase(0, prefix.find_first_not_of(' '));
  prefix.erase(prefix.find_last_not_of(' ') + 1);
  question.answer_prefix = prefix;
  for (const json& output : need_array(record, "outputs")) {
    question.golds.push_back(scalar_text(output, "outputs"));
  }
  if (question.golds.empty()) throw DataError("no outputs");
  question.id = task + ":" + text_or(record, "index", std::to_string(set.questions.size()));
  if (has(record, "length")) question.tags["length"] = need_text(record, "length");
  set.questions.push_back(std::move(question));
}

void read_file(const RecordFile& file, QuestionSet& set) {
  const std::string task = task_of(file.path);
  read_records(file.records, set, [&](const json& record) { read_record(record, task, set); });
}

// Files <task>/validation.jsonl of one length's folder, or of all lengths'.
std::vector<fs::path> task_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  const auto add = [&](const fs::path& parent) {
    for (const auto& entry : fs::directory_iterator(parent, error)) {
      const fs::path file = entry.path() / "validation.jsonl";
      if (fs::is_regular_file(file, error)) files.push_back(file);
    }
  };
  add(folder);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) add(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void read_folder(const fs::path& folder, QuestionSet& set) {
  for (const fs::path& path : task_files(folder)) {
    const RecordFile file = read_record_file(path);
    const std::size_t questions = set.questions.size();
    const std::size_t skipped = set.skipped.size();
    set.skipped.insert(set.skipped.end(), file.bad.begin(), file.bad.end());
    read_file(file, set);
    const std::string name = path.lexically_relative(folder).string();
    for (std::size_t i = skipped; i < set.skipped.size(); ++i) set.skipped[i].file = name;
    for (std::size_t i = questions; i < set.questions.size(); ++i) {
      // The same index occurs at every length.
      set.questions[i].id = name.substr(0, name.rfind('/')) + ":" +
                            set.questions[i].id.substr(set.questions[i].id.rfind(':') + 1);
    }
  }
}

}  // namespace

const FormatInfo kRulerFormat = {"ruler", "Synthetic needles, variables, words and questions.",
                                 "string_match_all", matches, read_file};

const FolderFormatInfo kRulerFolder = {
    "ruler", "A length's folder, or all lengths'.", "string_match_all",
    [](const fs::path& folder) { return !task_files(folder).empty(); }, read_folder};

}  // namespace kvscope
