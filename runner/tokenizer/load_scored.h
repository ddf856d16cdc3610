// GGUF's "llama" tokenizers: SentencePiece's BPE with scores and byte fallback.
#pragma once

#include <memory>

#include "runner/model/gguf_file.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// A space is put before a text and behind each control or user-defined token, unless
// tokenizer.ggml.add_space_prefix is false. Throws DataError: keys missing, damaged or
// contradicting each other.
std::unique_ptr<Tokenizer> load_scored_tokenizer(const GgufFile& file);

}  // namespace kvscope
