#include "datasets/questions/inspect.h"

#include <algorithm>
#include <set>

#include "datasets/questions/format.h"
#include "datasets/questions/options.h"
#include "runner/base/sha256.h"

namespace kvscope {
namespace {

TokenLengths summarise(std::vector<std::size_t> lengths, const std::vector<int>& windows) {
  TokenLengths summary;
  summary.n = lengths.size();
  if (lengths.empty()) return summary;
  std::ranges::sort(lengths);
  for (const std::size_t length : lengths) summary.total += length;
  // The value that at least so large a share does not exceed.
  const auto quantile = [&](double share) {
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(lengths.size() - 1));
    return lengths[rank];
  };
  summary.least = lengths.front();
  summary.median = quantile(0.5);
  summary.p90 = quantile(0.9);
  summary.p99 = quantile(0.99);
  summary.most = lengths.back();
  for (const int window : windows) {
    const auto limit = static_cast<std::size_t>(std::max(window - kRoomTokens, 0));
    summary.fitting[window] =
        static_cast<std::size_t>(std::ranges::upper_bound(lengths, limit) - lengths.begin());
  }
  return summary;
}

std::vector<std::size_t> lengths_of(const QuestionSet& set, const Tokenizer& tokenizer) {
  const auto tokens = [&](std::string_view text) {
    return tokenizer.encode(text, SpecialTokens::kAsText).size();
  };
  std::vector<std::size_t> documents;
  for (const std::string& document : set.documents) documents.push_back(tokens(document));
  if (set.questions.empty()) return documents;
  std::vector<std::size_t> lengths;
  for (const Question& question : set.questions) {
    if (question.document >= documents.size()) continue;  // results have no prompts
    std::size_t length = documents[question.document] + tokens(question.input);
    if (!question.options.empty()) length += tokens(lettered(question.options));
    lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

Inspection inspect_questions(const std::filesystem::path& path, const Tokenizer* tokenizer,
                             const std::vector<int>& windows) {
  const QuestionSet set = read_questions(path);
  Inspection found;
  found.format = set.format;
  found.samples = set.questions.size();
  found.documents = set.documents.size();
  found.no_questions = set.no_questions;
  found.skipped = set.skipped;
  std::set<std::string> hashes;
  for (const std::string& document : set.documents) {
    hashes.insert(sha256_hex(std::string_view(document)));
  }
  found.distinct_documents = hashes.size();
  for (const Question& question : set.questions) {
    const auto impossible = question.tags.find("impossible");
    const bool unanswerable = impossible != question.tags.end() && impossible->second == "true";
    found.without_answer += question.golds.empty() || unanswerable;
    if (!question.task.empty()) ++found.tasks[question.task];
    ++found.metrics[std::string(question.policy->scorer)];
  }
  if (tokenizer != nullptr) found.lengths = summarise(lengths_of(set, *tokenizer), windows);
  return found;
}

}  // namespace kvscope
