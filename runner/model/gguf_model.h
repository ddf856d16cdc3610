// A model in a GGUF file.
#pragma once

#include <filesystem>
#include <memory>

#include "runner/model/gguf_file.h"
#include "runner/model/weight_source.h"

namespace kvscope {

// Throws IoError, or DataError if the file is damaged, of an architecture that is not known, uses
// something that the forward pass does not have (experts, some RoPE scalings, any tensor not known)
// or if its keys and tensor shapes contradict each other.
std::unique_ptr<WeightSource> open_gguf_model(const std::filesystem::path& path);
std::unique_ptr<WeightSource> open_gguf_model(std::shared_ptr<const GgufFile> file);

// Its keys alone: also of a file whose tensors are wrong.
ModelConfig read_gguf_config(const GgufFile& file);

}  // namespace kvscope
