#include "datasets/niah/niah.h"

#include <algorithm>

#include "datasets/records/fields.h"
#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr PromptPolicy kNone = {.text = "{context}{input}", .scorer = "rouge_l"};

bool is_config(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "needle") && has(first, "retrieval_question");
}

bool is_result(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "needle") && has(first, "model_response");
}

void read_config(const RecordFile& file, QuestionSet& set) {
  set.no_questions = "the settings of a needle test: the task needle makes its prompts";
  read_records(file.records, set, [&](const json& record) {
    for (const std::string& length : need_texts(record, "context_lengths")) {
      for (const std::string& depth : need_texts(record, "document_depth_percents")) {
        Question question;
        question.policy = &kNone;
        question.input = need_text(record, "retrieval_question");
        question.golds = need_texts(record, "expected_answer");
        question.id = "length=" + length + ":depth=" + depth;
        set.questions.push_back(std::move(question));
      }
    }
  });
}

void read_results(const RecordFile& file, QuestionSet& set) {
  set.no_questions = "results of a run, without prompts: see kvscope score-answers";
  read_records(file.records, set, [&](const json& record) {
    Question question;
    question.policy = &kNone;
    question.golds = need_texts(record, "needle");
    question.id = "length=" + need_text(record, "context_length") +
                  ":depth=" + need_text(record, "depth_percent");
    set.questions.push_back(std::move(question));
  });
}

std::vector<fs::path> files_of(const fs::path& folder, const std::string& end) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error) && entry.path().string().ends_with(end)) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

void read_folder(const fs::path& folder, QuestionSet& set) {
  for (const fs::path& path : files_of(folder, "_results.json")) {
    const std::size_t skipped = set.skipped.size();
    try {
      read_results(read_record_file(path), set);
    } catch (const DataError& error) {
      set.skipped.push_back({1, error.what()});
    }
    for (std::size_t i = skipped; i < set.skipped.size(); ++i) {
      set.skipped[i].file = path.filename().string();
    }
  }
  if (!set.questions.empty()) return;
  set.format = "niah_haystack";
  set.no_questions = "a haystack: give it to the task needle with --haystack";
  for (const fs::path& path : files_of(folder, ".txt")) {
    try {
      set.add_document(read_text_file(path));
    } catch (const DataError& error) {
      set.skipped.push_back({1, error.what(), path.filename().string()});
    }
  }
}

}  // namespace

const FormatInfo kNiahConfigFormat = {"niah_config", "Needle, question, lengths and depths.",
                                      "rouge_l", is_config, read_config};
const FormatInfo kNiahResultFormat = {"niah_results", "The answer at one length and depth.",
                                      "rouge_l", is_result, read_results};
const FolderFormatInfo kNiahFolder = {
    "niah_results", "A folder of results, or of .txt files as a haystack.", "rouge_l",
    [](const fs::path& folder) {
      return !files_of(folder, "_results.json").empty() || !files_of(folder, ".txt").empty();
    },
    read_folder};

}  // namespace kvscope
