// A model in a folder as Hugging Face's libraries keep it: config.json, safetensors, and optionally
// generation_config.json.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runner/model/json_settings.h"
#include "runner/model/weight_source.h"

namespace kvscope {

// Throws IoError, or DataError as open_gguf_model does.
std::unique_ptr<WeightSource> open_folder_model(const std::filesystem::path& folder);

// What a config.json says; name: of the model.
ModelConfig read_config(const JsonSettings& settings, const std::string& name);
// config.json and generation_config.json alone.
ModelConfig read_folder_config(const std::filesystem::path& folder);

// Either: a folder or a GGUF file.
std::unique_ptr<WeightSource> open_model_source(const std::filesystem::path& path);

}  // namespace kvscope
