// tokenizer.model of SentencePiece (Kudo and Richardson 2018), by its own library.
#pragma once

#include <memory>
#include <string_view>

#include "runner/tokenizer/tokenizer.h"
#include "runner/tokenizer/tokenizer_settings.h"

namespace kvscope {

// `model`: the file's bytes. Control tokens, and those that `settings` adds, are found in a text
// first; what lies between is encoded on its own, with a space before it where the model puts one.
// Throws DataError, without a file's name.
std::unique_ptr<Tokenizer> read_sentencepiece(std::string_view model,
                                              const TokenizerSettings& settings);

}  // namespace kvscope
