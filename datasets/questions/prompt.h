// From a question to the text that a model is given.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/chat/chat_sample.h"
#include "datasets/questions/question_set.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct Prompt {
  std::string text;
  std::size_t document_end = 0;  // byte behind the document
  // First byte behind the document that is no white space; npos: the question comes first, or
  // nothing follows.
  std::size_t question_begin = std::string::npos;
  std::vector<TextSpan> evidence;  // in `text`
  bool cut = false;
  bool evidence_cut = false;
};

// {context}, {input} (or {question}) and {options} of `text` are filled in; other braces are text.
// Options that the text has no place for follow the question.
Prompt compose_prompt(std::string_view text, const Question& question, std::string_view document);

// Throws UsageError for a text without {context} (`where` names it).
void check_template(std::string_view text, const std::string& where);

// Cuts a prompt of more than `most` tokens. Tokens are those of the text alone; after the cut the
// text is tokenised again, which may change their number by one or two. `mark` stands where the
// document was cut (kHead).
void truncate_prompt(Prompt& prompt, std::size_t most, Truncation truncation, std::string_view mark,
                     const Tokenizer& tokenizer);

}  // namespace kvscope
