#include "datasets/hotpotqa/hotpotqa.h"

#include <map>

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kPolicy = {
    .text =
        "Read the passages and answer the question that follows them with a short phrase.\n\n"
        "{context}\n\nAnswer the question about the passages above with a short phrase and "
        "nothing else.\n\nQuestion: {input}",
    .answer_prefix = "Answer:",
    .scorer = "token_f1_hotpotqa"};

bool matches(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "supporting_facts") && has(first, "context") && has(first, "question");
}

void read_record(const json& record, QuestionSet& set) {
  std::string text;
  std::map<std::pair<std::string, std::size_t>, TextSpan> sentences;
  std::size_t number = 0;
  for (const json& passage : need_array(record, "context")) {
    if (!passage.is_array() || passage.size() != 2 || !passage[1].is_array()) {
      throw DataError("\"context\" is no list of [title, [sentences]]");
    }
    const std::string title = scalar_text(passage[0], "context");
    text += (number > 0 ? "\n\n" : "") + std::string("Passage ") + std::to_string(number + 1) +
            ": " + title + "\n";
    ++number;
    for (std::size_t i = 0; i < passage[1].size(); ++i) {
      const std::size_t begin = text.size();
      text += scalar_text(passage[1][i], "context");
      sentences[{title, i}] = {begin, text.size()};
    }
  }
  Question question;
  question.policy = &kPolicy;
  question.document = set.shared_document(std::move(text));
  question.id = need_text(record, "_id");
  question.input = need_text(record, "question");
  question.golds = need_texts(record, "answer");
  for (const json& fact : need_array(record, "supporting_facts")) {
    if (!fact.is_array() || fact.size() != 2 || !fact[1].is_number_unsigned()) {
      throw DataError("\"supporting_facts\" is no list of [title, sentence number]");
    }
    // Some facts of the published file name a sentence that is not there.
    const auto found =
        sentences.find({scalar_text(fact[0], "supporting_facts"), fact[1].get<std::size_t>()});
    if (found != sentences.end()) question.evidence.push_back(found->second);
  }
  for (const char* tag : {"type", "level"}) {
    if (has(record, tag)) question.tags[tag] = need_text(record, tag);
  }
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kHotpotQaFormat = {
    "hotpotqa", "Questions over several passages with supporting facts.", "token_f1_hotpotqa",
    matches, [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_record(record, set); });
    }};

}  // namespace kvscope
