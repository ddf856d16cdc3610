// What all architectures' settings have in common: sizes, RoPE and its scaling, sliding windows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/model/config.h"
#include "runner/model/gguf_keys.h"
#include "runner/model/json_settings.h"

namespace kvscope {

// All throw DataError for values that are missing, contradict each other or are not supported.

// ---- config.json ----

// Layers, heads, widths, vocabulary, context: those that `config` has already need not be there.
// d_ff and the norms' epsilon are under names that differ.
void read_json_sizes(const JsonSettings& settings, ModelConfig& config);
void read_json_tied_head(const JsonSettings& settings, bool by_default, ModelConfig& config);
// The value of `key` must be `wanted`.
void require_json(const JsonSettings& settings, std::string_view key, std::string_view wanted);
void refuse_json(const JsonSettings& settings, std::string_view key);  // must be absent or false

// rope_theta and rope_parameters (rope_scaling of older files): sets rope_theta, rope_frequency
// and, for YaRN, query_scale. rotary_dim: leading dimensions of a head that turn.
int json_rotary_dim(const JsonSettings& settings, std::string_view old_key, double by_default,
                    const ModelConfig& config);  // from the share of a head that turns
void read_json_rope(const JsonSettings& settings, int rotary_dim, ModelConfig& config);
// Frequencies of one set of rope parameters. magnitude: of YaRN, left alone by the others.
std::vector<float> json_rope_frequencies(const JsonSettings& rope, double theta, int rotary_dim,
                                         const ModelConfig& config, double& magnitude);

// layer_types: which layers have a window; unless they say, layers from `first` on do.
void read_json_windows(const JsonSettings& settings, int first, ModelConfig& config);

// ---- GGUF ----

// Layers, heads, widths, context; n_vocab from the embedding. norm_key: of the epsilon.
void read_gguf_sizes(const GgufKeys& keys, std::string_view norm_key, ModelConfig& config);
// rope.freq_base, rope.scaling.*, rope.dimension_count and rope_freqs.weight.
void read_gguf_rope(const GgufKeys& keys, ModelConfig& config);

// ---- both ----

// A window that no text within the context fills changes nothing: without it the model is plain.
void drop_idle_window(ModelConfig& config);

// Head counts and widths that the forward pass can take. Sizes of every origin go through it, those
// that are known late once more.
void check_sizes(const ModelConfig& config, const std::function<void(const std::string&)>& fail);

}  // namespace kvscope
