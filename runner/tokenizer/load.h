// The tokenizer that a GGUF file describes.
#pragma once

#include <memory>

#include "runner/model/gguf_file.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Byte-level BPE (tokenizer.ggml.model "gpt2") or SentencePiece's BPE ("llama"). The tokenizer does
// not need `file` afterwards. Throws DataError: another kind of tokenizer, unknown pre-tokenizer,
// keys missing, damaged or contradicting each other.
std::unique_ptr<Tokenizer> load_tokenizer(const GgufFile& file);

}  // namespace kvscope
