// The tokenizer of a model, in whatever form its files hold it.
#pragma once

#include <filesystem>
#include <memory>

#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// `path` is a folder of a Hugging Face model (tokenizer.json, else tokenizer.model), one of these
// files, or a GGUF file; which one is seen by what it holds. tokenizer_config.json, config.json and
// chat_template.jinja beside a tokenizer are read where they are there. Throws IoError (cannot be
// read) or DataError (damaged or not supported), with the file's name.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

}  // namespace kvscope
