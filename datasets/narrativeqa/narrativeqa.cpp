// The stories themselves are not part of the data set: the document is the summary, as in its
// easier setting.
#include "datasets/narrativeqa/narrativeqa.h"

#include <map>

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr PromptPolicy kPolicy = {
    .text =
        "Read the summary of a story and answer the question about it.\n\n{context}\n\nAnswer the "
        "question about the story in as few words as possible.\n\nQuestion: {input}",
    .answer_prefix = "Answer:",
    .scorer = "token_f1",
    .max_new_tokens = 64};

bool matches(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "qaps.csv", error) &&
         fs::is_regular_file(folder / "summaries.csv", error);
}

void read(const fs::path& folder, QuestionSet& set) {
  std::map<std::string, std::size_t> documents;
  const RecordFile summaries = read_record_file(folder / "summaries.csv");
  const RecordFile questions = read_record_file(folder / "qaps.csv");
  const auto name_skipped = [&](std::size_t from, const char* name) {
    for (std::size_t i = from; i < set.skipped.size(); ++i) set.skipped[i].file = name;
  };
  set.skipped = summaries.bad;
  read_records(summaries.records, set, [&](const json& record) {
    documents[need_text(record, "document_id")] = set.add_document(need_text(record, "summary"));
  });
  name_skipped(0, "summaries.csv");
  const std::size_t skipped = set.skipped.size();
  set.skipped.insert(set.skipped.end(), questions.bad.begin(), questions.bad.end());
  read_records(questions.records, set, [&](const json& record) {
    Question question;
    const std::string id = need_text(record, "document_id");
    const auto found = documents.find(id);
    if (found == documents.end()) throw DataError("no summary of document " + id);
    question.policy = &kPolicy;
    question.document = found->second;
    question.cluster = "document=" + id;
    question.input = need_text(record, "question");
    question.golds = {need_text(record, "answer1")};
    if (const std::string second = text_or(record, "answer2", {}); !second.empty()) {
      question.golds.push_back(second);
    }
    if (has(record, "set")) question.tags["set"] = need_text(record, "set");
    set.questions.push_back(std::move(question));
  });
  name_skipped(skipped, "qaps.csv");
}

}  // namespace

const FolderFormatInfo kNarrativeQaFolder = {
    "narrativeqa", "qaps.csv and summaries.csv: questions about summaries of stories.", "token_f1",
    matches, read};

}  // namespace kvscope
