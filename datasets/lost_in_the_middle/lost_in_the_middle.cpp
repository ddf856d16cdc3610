#include "datasets/lost_in_the_middle/lost_in_the_middle.h"

#include "datasets/records/fields.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using nlohmann::json;

constexpr PromptPolicy kQa = {
    .text =
        "Some of the search results below answer the question that follows them, others do not."
        "\n\n{context}\n\nAnswer the question from the search results above, in few words.\n\n"
        "Question: {input}",
    .answer_prefix = "Answer:",
    .scorer = "best_subspan_em",
    .max_new_tokens = 100};
constexpr PromptPolicy kKv = {
    .text =
        "Find the value of the given key in the JSON object below.\n\nJSON object:\n{context}\n\n"
        "Key: \"{input}\"",
    .answer_prefix = "Corresponding value:",
    .scorer = "best_subspan_em",
    .max_new_tokens = 100};

bool matches_qa(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "ctxs") && has(first, "question") && has(first, "answers");
}

bool matches_kv(const RecordFile& file) {
  const json& first = file.records.front().value;
  return has(first, "ordered_kv_records") && has(first, "key");
}

void read_qa(const json& record, QuestionSet& set) {
  std::string text;
  Question question;
  std::size_t number = 0;
  for (const json& passage : need_array(record, "ctxs")) {
    const std::size_t begin = text.size();
    text += (number > 0 ? "\n" : "") + std::string("Document [") + std::to_string(number + 1) +
            "] (Title: " + text_or(passage, "title", {}) + ") ";
    const std::size_t text_begin = text.size();
    text += need_text(passage, "text");
    if (has(passage, "isgold") && passage["isgold"] == true) {
      question.evidence = {{text_begin, text.size()}};
      question.tags["gold_document"] = std::to_string(number + 1);
    }
    if (text_begin == begin) throw DataError("\"ctxs\" has a passage without text");
    ++number;
  }
  question.tags["documents"] = std::to_string(number);
  question.policy = &kQa;
  question.document = set.shared_document(std::move(text));
  question.input = need_text(record, "question");
  question.golds = need_texts(record, "answers");
  if (question.golds.empty()) throw DataError("no answers");
  set.questions.push_back(std::move(question));
}

void read_kv(const json& record, QuestionSet& set) {
  std::string text = "{";
  Question question;
  question.input = need_text(record, "key");
  question.golds = {need_text(record, "value")};
  std::size_t number = 0;
  for (const json& pair : need_array(record, "ordered_kv_records")) {
    if (!pair.is_array() || pair.size() != 2) {
      throw DataError("\"ordered_kv_records\" is no list of [key, value]");
    }
    const std::string key = scalar_text(pair[0], "ordered_kv_records");
    text += (number > 0 ? ",\n " : "");
    const std::size_t begin = text.size();
    text += "\"" + key + "\": \"" + scalar_text(pair[1], "ordered_kv_records") + "\"";
    if (key == question.input) {
      question.evidence = {{begin, text.size()}};
      question.tags["gold_pair"] = std::to_string(number + 1);
    }
    ++number;
  }
  text += "}";
  if (question.evidence.empty()) throw DataError("the key is not among the records");
  question.tags["pairs"] = std::to_string(number);
  question.policy = &kKv;
  question.document = set.shared_document(std::move(text));
  set.questions.push_back(std::move(question));
}

}  // namespace

const FormatInfo kLostInTheMiddleQaFormat = {
    "lost_in_the_middle_qa", "A question over passages of which one answers it.", "best_subspan_em",
    matches_qa, [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_qa(record, set); });
    }};

const FormatInfo kLostInTheMiddleKvFormat = {
    "lost_in_the_middle_kv", "The value of a key among random ones.", "best_subspan_em", matches_kv,
    [](const RecordFile& file, QuestionSet& set) {
      read_records(file.records, set, [&](const json& record) { read_kv(record, set); });
    }};

}  // namespace kvscope
