// From a text with a question at its end to a Sample.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "datasets/chat/chat_template.h"
#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct ChatQuestion {
  std::string text;                // document and question: the user's turn
  std::string answer_prefix;       // how the assistant's answer is made to begin
  std::vector<std::string> golds;  // accepted answers; none: gold_ids stay empty
  std::size_t evidence_begin = 0;  // bytes of `text` that hold the fact; equal when unknown
  std::size_t evidence_end = 0;
  // First byte of `text` that depends on what is asked or how; the rest of `text` is the question.
  // npos: there is none.
  std::size_t question_begin = std::string::npos;
  // Further stretches of `text` that are needed, where one does not hold the whole answer.
  std::vector<std::pair<std::size_t, std::size_t>> more_evidence = {};
  // The answer as the model would write it, where it is not the first of `golds` (several values).
  std::string gold_answer = {};
};

// Ids, golds, question, evidence and input hash; key, cluster, tags and limits are the caller's.
Sample make_chat_sample(const ChatQuestion& question, const ChatTemplate& chat,
                        const Tokenizer& tokenizer);

}  // namespace kvscope
