// The tokenizer of a model, in whatever form its files hold it.
#pragma once

#include <filesystem>
#include <memory>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// `path` is a GGUF file. Throws IoError (cannot be read) or DataError (damaged or not supported).
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace kvscope
