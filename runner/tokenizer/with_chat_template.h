// Another chat template than the one in a model's files.
#pragma once

#include <memory>
#include <string>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// The same tokenizer with `chat_template` in the place of its own.
std::unique_ptr<Tokenizer> with_chat_template(std::unique_ptr<Tokenizer> tokenizer,
                                              std::string chat_template);

}  // namespace kvscope
