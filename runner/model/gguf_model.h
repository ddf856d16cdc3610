// A Llama-architecture model in a GGUF file.
#pragma once

#include <filesystem>
#include <memory>

#include "runner/model/gguf_file.h"
#include "runner/model/weight_source.h"

namespace kvscope {

// Throws IoError, or DataError if the file is damaged, of another architecture, uses something that
// the forward pass does not have (RoPE scaling, biases, experts, any tensor not known) or if its
// keys and tensor shapes contradict each other.
std::unique_ptr<WeightSource> open_gguf_model(const std::filesystem::path& path);
std::unique_ptr<WeightSource> open_gguf_model(std::shared_ptr<const GgufFile> file);

}  // namespace kvscope
