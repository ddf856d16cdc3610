#include "datasets/questions/question_set.h"

#include "runner/base/error.h"
#include "runner/base/sha256.h"

namespace kvscope {

std::string_view name_of(Truncation truncation) {
  switch (truncation) {
    case Truncation::kNone:
      return "none";
    case Truncation::kMiddle:
      return "middle";
    case Truncation::kHead:
      return "head";
  }
  return "none";
}

std::size_t QuestionSet::add_document(std::string text) {
  documents.push_back(std::move(text));
  return documents.size() - 1;
}

std::size_t QuestionSet::shared_document(std::string text) {
  const auto [entry, is_new] =
      by_hash_.try_emplace(sha256_hex(std::string_view(text)), documents.size());
  return is_new ? add_document(std::move(text)) : entry->second;
}

void QuestionSet::shrink(std::size_t n_documents, std::size_t n_questions) {
  std::erase_if(by_hash_, [&](const auto& entry) { return entry.second >= n_documents; });
  documents.resize(n_documents);
  questions.resize(n_questions);
}

void read_part(int line, const std::string& place, QuestionSet& set,
               const std::function<void()>& read) {
  const std::size_t n_documents = set.documents.size();
  const std::size_t n_questions = set.questions.size();
  try {
    read();
    for (std::size_t q = n_questions; q < set.questions.size(); ++q) set.questions[q].line = line;
  } catch (const DataError& error) {
    set.shrink(n_documents, n_questions);
    set.skipped.push_back({line, (place.empty() ? "" : place + ": ") + error.what()});
  }
}

void read_records(const std::vector<Record>& records, QuestionSet& set,
                  const std::function<void(const nlohmann::json&)>& read) {
  for (const Record& record : records) {
    read_part(record.line, {}, set, [&] { read(record.value); });
  }
}

}  // namespace kvscope
