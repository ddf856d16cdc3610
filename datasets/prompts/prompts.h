// A user's own prompts, without gold answers.
#pragma once

#include <filesystem>

#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

struct PromptOptions {
  int limit = 0;  // at most so many, 0: all
  int max_new_tokens = 64;
};

// One JSON object a line: {"prompt": "…"}, or {"messages": [{"role": …, "content": …}, …]} as in
// OpenAI's chat completions, where content may be a list of {"type": "text", "text": …} parts; an
// "id" names the sample, other members are ignored. The prompt ends with the last message, which is
// the user's; where it is the assistant's, the answer begins with it. What a policy must not see
// with question=hidden is the last user's message, where something stands before it.
// Byte-order mark, CRLF, empty lines and raw control characters are tolerated. Throws IoError, or
// DataError naming file and line.
Dataset load_prompts(const std::filesystem::path& file, const PromptOptions& options,
                     const Tokenizer& tokenizer);

}  // namespace kvscope
