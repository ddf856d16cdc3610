// What tells one decoder architecture from another: how its settings are read and where its
// checkpoints keep each tensor. One file each in architectures/; the forward pass is written once
// (engine/forward.h) and reads the result, a ModelConfig.
#pragma once

#include <span>
#include <string_view>

#include "runner/model/config.h"
#include "runner/model/gguf_keys.h"
#include "runner/model/json_settings.h"

namespace kvscope {

// Which rows of a stored matrix (elements of a vector) make up a tensor of the forward pass.
// "Turned": stored with the two halves of a head's rotated dimensions as pairs (i, i + n/2), wanted
// as adjacent pairs.
enum class StoredRows : std::uint8_t {
  kAll,
  kTurned,        // heads
  kStackedQuery,  // of [queries | keys | values], turned
  kStackedKey,    // likewise
  kStackedValue,
  kHeadQuery,  // of [query | key | value] of each head, turned
  kHeadKey,    // likewise
  kHeadValue,
  kFirstHalf,   // of [gate | up]
  kSecondHalf,  // likewise
  kAfterTwo     // without the first two rows
};

struct StoredTensor {
  std::string_view part;    // of the forward pass: "attn_q.weight" of a layer, "output.weight"
  std::string_view stored;  // in the checkpoint; # is the layer's number
  StoredRows rows = StoredRows::kAll;
  float plus = 0.0F;  // is added to every element
};

struct Architecture {
  std::string_view name;                          // ModelConfig::architecture; in GGUF files too
  std::span<const std::string_view> model_types;  // config.json's model_type
  bool in_gguf = true;
  void (*set_defaults)(ModelConfig& config) = nullptr;  // of sizes that config.json may leave out
  // Throw DataError for what the forward pass does not have. Sizes that all architectures have are
  // read before (read_config.h).
  void (*read_json)(const JsonSettings& settings, ModelConfig& config);
  void (*read_gguf)(const GgufKeys& keys, ModelConfig& config);
  std::span<const StoredTensor> in_folder;  // names in safetensors
  std::span<const StoredTensor> in_file;    // names in GGUF
  // Ends or beginnings of names of tensors that files hold and the forward pass has no use for.
  std::span<const std::string_view> unused = {};
};

std::span<const Architecture* const> architectures();
const Architecture* architecture_of_gguf(std::string_view name);          // null: not known
const Architecture* architecture_of_folder(std::string_view model_type);  // likewise
std::string known_gguf_architectures();                                   // "llama, qwen2, …"
std::string known_model_types();

}  // namespace kvscope
