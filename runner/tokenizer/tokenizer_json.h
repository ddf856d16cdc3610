// tokenizer.json of the tokenizers library (Hugging Face).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "runner/tokenizer/tokenizer.h"
#include "runner/tokenizer/tokenizer_settings.h"

namespace kvscope {

// Models of type BPE. Throws DataError, without a file's name, for anything that is not supported,
// contradicts itself or is missing. `settings`: of the files beside it.
std::unique_ptr<Tokenizer> read_tokenizer_json(const nlohmann::json& description,
                                               const TokenizerSettings& settings);
// The same from a text that may hold anything.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text,
                                                const TokenizerSettings& settings);

}  // namespace kvscope
