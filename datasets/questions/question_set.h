// What a data set asks, before a model's tokenizer has seen it: what every loader returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/records/record_file.h"
#include "datasets/sample.h"

namespace kvscope {

// Which tokens go if a prompt is longer than wanted.
enum class Truncation : std::uint8_t {
  kNone,    // the prompt stays too long
  kMiddle,  // the first half and the last half of the tokens stay (LongBench)
  kHead,    // the document's first tokens stay, and all of the question (ZeroSCROLLS)
};
std::string_view name_of(Truncation truncation);

// How questions of a kind become prompts: our own words, the order of their authors.
struct PromptPolicy {
  // {context}, {input} and {options} stand for what the record says; what follows {context} is the
  // question.
  std::string_view text;
  std::string_view answer_prefix = {};  // fed after the selection: how the answer is made to begin
  std::string_view scorer = {};         // main metric (metrics/quality/scorers.h); empty: token_f1
  int max_new_tokens = 32;
  AnswerCut cut = AnswerCut::kNone;
  bool chat = true;  // in a user's turn of the model's chat template, else plain text
  Truncation truncation = Truncation::kMiddle;
};

struct TextSpan {
  std::size_t begin = 0;  // bytes
  std::size_t end = 0;
};

struct Question {
  std::string id;            // empty: made of the document and a number
  std::string task;          // of the data set, "multifieldqa_en"; empty: it has no tasks
  std::size_t document = 0;  // in QuestionSet::documents
  std::string cluster;       // unit of independent draw; empty: the document
  std::string input;         // what is asked
  std::vector<std::string> options;
  std::vector<std::string> golds;  // empty: the answers are not published
  std::vector<std::string> classes;
  const PromptPolicy* policy = nullptr;  // static
  std::string answer_prefix;             // of the record; empty: the policy's
  int max_new_tokens = 0;                // of the record; 0: the policy's
  std::string truncation_mark;           // stands where a document was cut (ZeroSCROLLS)
  std::vector<TextSpan> evidence;        // in the document
  std::map<std::string, std::string> tags;
  int line = 0;  // of the file
};

struct QuestionSet {
  std::string format;
  std::vector<std::string> documents;
  std::vector<Question> questions;
  std::vector<SkippedRecord> skipped;
  // Why there are documents but nothing to ask (texts, results of runs); says what they are for.
  std::string no_questions;

  std::size_t add_document(std::string text);  // index
  // The index of an equal document that is there already, or of a new one.
  std::size_t shared_document(std::string text);
  // Forgets what came after so many.
  void shrink(std::size_t n_documents, std::size_t n_questions);

 private:
  std::map<std::string, std::size_t> by_hash_;
};

// Calls read(record) for every record, in order. One that throws DataError leaves nothing behind
// but an entry in `skipped`.
void read_records(const std::vector<Record>& records, QuestionSet& set,
                  const std::function<void(const nlohmann::json&)>& read);

// The same for a part of a record: `place` ("article 3") is put before the reason.
void read_part(int line, const std::string& place, QuestionSet& set,
               const std::function<void()>& read);

}  // namespace kvscope
