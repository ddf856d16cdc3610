// From a data set's file to samples.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "datasets/questions/question_set.h"
#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// What a user says instead of the format's own prompts: of one task, or of all ("").
struct UserPrompts {
  std::map<std::string, std::string> texts;
  std::map<std::string, int> max_new_tokens;

  // A text with {context} …, or a JSON object of them by task (LongBench's dataset2prompt.json).
  void read_texts(const std::filesystem::path& file);
  // A JSON object of numbers by task (dataset2maxlen.json).
  void read_lengths(const std::filesystem::path& file);
};

struct QuestionOptions {
  int samples = 0;  // at most so many, 0: all
  // Questions that the text does not answer (SQuAD v2): left out, or kept with an empty gold
  // answer.
  bool keep_impossible = false;
  bool skip_bad_records = false;              // go on without records that cannot be used
  int max_prompt_tokens = 0;                  // longer prompts are cut as the format does; 0: never
  std::optional<Truncation> truncation = {};  // instead of the format's
  UserPrompts prompts = {};
};

// Questions are taken one from each cluster in turn, so that few of them still come from many
// documents; then those of one document stand together, so that it is computed once. Throws
// IoError, DataError (file, line, reason; also where a record cannot be used, unless those are
// skipped) and UsageError.
Dataset load_questions(const std::filesystem::path& path, const QuestionOptions& options,
                       const Tokenizer& tokenizer);

}  // namespace kvscope
