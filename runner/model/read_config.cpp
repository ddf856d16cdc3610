#include "runner/model/read_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runner/model/dequantize.h"
#include "runner/model/rope_frequencies.h"

namespace kvscope {
namespace {

constexpr std::int64_t kWidest = 1 << 28;
constexpr int kMostLayers = 10'000;

bool is_plain_rope(std::string_view type) {
  return type.empty() || type == "default" || type == "none";
}

// A pair's frequency is kept only where it is not what theta and head_dim give.
void keep_if_special(std::vector<float> frequency, int rotary_dim, bool scaled, ModelConfig& c) {
  if (rotary_dim != c.head_dim) c.rotary_dim = rotary_dim;
  if (scaled || rotary_dim != c.head_dim) c.rope_frequency = std::move(frequency);
}

}  // namespace

void check_sizes(const ModelConfig& c, const std::function<void(const std::string&)>& fail) {
  if (c.n_heads % c.n_kv_heads != 0) {
    fail(std::to_string(c.n_heads) + " query heads cannot share " + std::to_string(c.n_kv_heads) +
         " KV heads evenly; the file is damaged");
  }
  if (c.head_dim % 2 != 0) {
    fail("heads of " + std::to_string(c.head_dim) +
         " dimensions: the number must be even; use another model");
  }
  if (c.head_dim > kMaxHeadDim) {
    fail("heads of " + std::to_string(c.head_dim) + " dimensions are wider than the " +
         std::to_string(kMaxHeadDim) + " this program handles; use another model");
  }
  // Sums and doubles of them must stay in range.
  if (std::int64_t{c.n_heads} * c.head_dim > kWidest || c.d_ff > kWidest || c.n_vocab > kWidest)
    fail("its heads, MLP or vocabulary are impossibly wide; the file is damaged");
  if (c.n_layers > kMostLayers) fail("it has impossibly many layers; the file is damaged");
  the file is damaged ");
}

// ---- config.json ----

void read_json_sizes(const JsonSettings& in, ModelConfig& c) {
  c.n_layers = in.positive("num_hidden_layers", c.n_layers);
  c.d_model = in.positive("hidden_size", c.d_model);
  c.context_length = in.positive("max_position_embeddings", c.context_length);
  c.n_vocab = in.positive("vocab_size", c.n_vocab);
  c.n_heads = in.positive("num_attention_heads", c.n_heads);
  c.n_kv_heads = in.positive("num_key_value_heads", c.n_kv_heads > 0 ? c.n_kv_heads : c.n_heads);
  if (!in.has("head_dim") && c.head_dim == 0 && c.d_model % c.n_heads != 0) {
    in.fail("width " + std::to_string(c.d_model) + " is no multiple of its " +
            std::to_string(c.n_heads) + " heads; the file is damaged");
  }
  c.head_dim = in.positive("head_dim", c.head_dim > 0 ? c.head_dim : c.d_model / c.n_heads);
  check_sizes(c, [&](const std::string& what) { in.fail(what); });
}

void read_json_tied_head(const JsonSettings& in, bool by_default, ModelConfig& c) {
  c.tied_head = in.boolean("tie_word_embeddings").value_or(by_default);
}

void require_json(const JsonSettings& in, std::string_view key, std::string_view wanted) {
  const auto value = in.string(key);
  if (value && *value != wanted) {
    in.fail(std::string(key) + " " + kvscope::quoted(*value) + " is not supported, only " +
            kvscope::quoted(wanted) + "; use another model");
  }
}

void refuse_json(const JsonSettings& in, std::string_view key) {
  if (in.boolean(key).value_or(false))
    in.fail(std::string(key) + " is not supported; use another model");
}

int json_rotary_dim(const JsonSettings& in, std::string_view old_key, double by_default,
                    const ModelConfig& c) {
  double share = in.positive_real(old_key, by_default);
  if (const auto rope = in.object("rope_parameters"))
    share = rope->positive_real("partial_rotary_factor", share);
  const int dim = share > 1.0 ? 0 : int(c.head_dim * share);
  if (dim < 2 || dim % 2 != 0) {
    in.fail("RoPE turns a share of " + std::to_string(share) + " of heads of " +
            std::to_string(c.head_dim) + " dimensions, no even number; use another model");
  }
  return dim;
}

std::vector<float> json_rope_frequencies(const JsonSettings& rope, double theta, int rotary_dim,
                                         const ModelConfig& c, double& magnitude) {
  std::vector<float> frequency = rope_frequencies(c.head_dim, rotary_dim, theta);
  const std::string type =
      rope.string("rope_type").value_or(rope.string("type").value_or(std::string()));
  if (is_plain_rope(type)) return frequency;
  RopeScaling scaling{.type = type, .factor = rope.positive_real("factor", 1.0)};
  scaling.original_context =
      rope.positive_real("original_max_position_embeddings", double(c.context_length));
  if (type == "linear") {
    scale_linear(frequency, scaling.factor);
  } else if (type == "llama3") {
    scaling.low_frequency_factor = rope.positive_real("low_freq_factor");
    scaling.high_frequency_factor = rope.positive_real("high_freq_factor");
    if (scaling.low_frequency_factor >= scaling.high_frequency_factor)
      rope.fail("low_freq_factor is not below high_freq_factor; the file is damaged");
    divide(frequency, llama3_factors(frequency, scaling));
  } else if (type == "yarn") {
    if (rope.has("mscale") || rope.has("mscale_all_dim"))
      rope.fail("YaRN with mscale is not supported; use another model");
    scaling.beta_fast = rope.positive_real("beta_fast", 32.0);
    scaling.beta_slow = rope.positive_real("beta_slow", 1.0);
    scaling.truncate = rope.boolean("truncate").value_or(true);
    scale_yarn(frequency, rotary_dim, theta, scaling);
    magnitude = rope.positive_real("attention_factor", yarn_magnitude(scaling.factor));
  } else {
    rope.fail("RoPE scaling " + kvscope::quoted(type) +
              " is not supported, only linear, llama3 and yarn; use another model");
  }
  return frequency;
}

void read_json_rope(const JsonSettings& in, int rotary_dim, ModelConfig& c) {
  std::optional<JsonSettings> rope = in.object("rope_parameters");
  if (!rope) rope = in.object("rope_scaling");
  c.rope_theta = in.positive_real("rope_theta", 10000.0);
  if (!rope) {
    keep_if_special(rope_frequencies(c.head_dim, rotary_dim, c.rope_theta), rotary_dim, false, c);
    return;
  }
  c.rope_theta = rope->positive_real("rope_theta", c.rope_theta);
  double magnitude = 1.0;
  std::vector<float> frequency =
      json_rope_frequencies(*rope, c.rope_theta, rotary_dim, c, magnitude);
  const bool scaled =
      frequency != rope_frequencies(c.head_dim, rotary_dim, c.rope_theta) || magnitude != 1.0;
  keep_if_special(std::move(frequency), rotary_dim, scaled, c);
  // Queries and keys are both longer by it; keys are kept as they are, so that turning them again
  // does not repeat it.
  if (magnitude != 1.0)
    c.query_scale = float(magnitude * magnitude / std::sqrt(double(c.head_dim)));
}

void read_json_windows(const JsonSettings& in, int first, ModelConfig& c) {
  if (!in.has("sliding_window")) return;  // null: none
  c.window = in.positive("sliding_window");
  const auto types = in.strings("layer_types");
  if (types && types->size() != std::size_t(c.n_layers)) {
    in.fail("layer_types has " + std::to_string(types->size()) + " entries for " +
            std::to_string(c.n_layers) + " layers; the file is damaged");
  }
  for (int layer = 0; layer < c.n_layers && (types || first > 0); ++layer) {
    if (types && (*types)[std::size_t(layer)] != "sliding_attention" &&
        (*types)[std::size_t(layer)] != "full_attention") {
      in.fail("layers of type " + kvscope::quoted((*types)[std::size_t(layer)]) +
              " are not supported; use another model");
    }
    c.windowed.push_back(types ? (*types)[std::size_t(layer)] == "sliding_attention"
                               : layer >= first);
  }
}

void drop_idle_window(ModelConfig& c) {
  const bool any = c.windowed.empty() || std::ranges::find(c.windowed, true) != c.windowed.end();
  if (any && (c.window < c.context_length || !c.windowed_rope_frequency.empty())) return;
  c.window = 0;
  c.windowed.clear();
}

// ---- GGUF ----

void read_gguf_sizes(const GgufKeys& keys, std::string_view norm_key, ModelConfig& c) {
  c.n_layers = keys.positive("block_count");
  c.d_model = keys.positive("embedding_length");
  c.d_ff = keys.positive("feed_forward_length");
  c.context_length = keys.positive("context_length");
  c.n_heads = keys.positive("attention.head_count");
  c.n_kv_heads = keys.positive("attention.head_count_kv", c.n_heads);
  if (!keys.has("attention.key_length") && c.d_model % c.n_heads != 0) {
    keys.fail("width " + std::to_string(c.d_model) + " is no multiple of its " +
              std::to_string(c.n_heads) + " heads; the file is damaged");
  }
  c.head_dim = keys.positive("attention.key_length", c.d_model / c.n_heads);
  const int value_dim = keys.positive("attention.value_length", c.head_dim);
  if (value_dim != c.head_dim) {
    keys.fail("heads of " + std::to_string(c.head_dim) + " dimensions in keys and " +
              std::to_string(value_dim) + " in values must be equal; use another model");
  }
  check_sizes(c, [&](const std::string& what) { keys.fail(what); });
  c.rms_eps = static_cast<float>(keys.positive_real(norm_key));
  c.tied_head = keys.file().tensor("output.weight") == nullptr;
  if (keys.file().integer(keys.key("expert_count")).value_or(0) > 0)
    keys.fail("mixture-of-experts models are not supported; use a dense model");
}

void read_gguf_rope(const GgufKeys& keys, ModelConfig& c) {
  const GgufFile& file = keys.file();
  const int rotary_dim = keys.positive("rope.dimension_count", c.head_dim);
  if (rotary_dim > c.head_dim || rotary_dim % 2 != 0) {
    keys.fail("RoPE of " + std::to_string(rotary_dim) + " of a head's " +
              std::to_string(c.head_dim) +
              " dimensions must be even and no more; use another model");
  }
  c.rope_theta = keys.positive_real("rope.freq_base", c.rope_theta);
  std::vector<float> frequency = rope_frequencies(c.head_dim, rotary_dim, c.rope_theta);
  std::string type(file.string(keys.key("rope.scaling.type")).value_or(""));
  double factor = keys.positive_real("rope.scaling.factor", 1.0);
  if (keys.has("rope.scale_linear")) {  // of old files
    factor = keys.positive_real("rope.scale_linear");
    type = "linear";
  }
  if (type.empty() && factor != 1.0) type = "linear";
  double magnitude = 1.0;
  if (type == "linear") {
    scale_linear(frequency, factor);
  } else if (type == "yarn") {
    RopeScaling scaling{.type = type, .factor = factor};
    scaling.original_context =
        keys.positive("rope.scaling.original_context_length", c.context_length);
    scaling.beta_fast = keys.positive_real("rope.scaling.yarn_beta_fast", scaling.beta_fast);
    scaling.beta_slow = keys.positive_real("rope.scaling.yarn_beta_slow", scaling.beta_slow);
    scale_yarn(frequency, rotary_dim, c.rope_theta, scaling);
    magnitude = keys.positive_real("rope.scaling.yarn_attn_factor",
                                   keys.positive_real("rope.scaling.attn_factor", 1.0)) *
                yarn_magnitude(factor);
  } else if (!is_plain_rope(type)) {
    keys.fail("RoPE scaling " + kvscope::quoted(type) +
              " is not supported, only linear, yarn and tables of factors; use another model");
  }
  const GgufTensor* factors = file.tensor("rope_freqs.weight");
  if (factors != nullptr) {
    if (factors->type != TensorType::kF32 || factors->dims[1] != 1 ||
        factors->dims[0] != std::uint64_t(rotary_dim / 2)) {
      keys.fail(
          "tensor 'rope_freqs.weight' is not one float a pair of dimensions; convert the "
          "model again");
    }
    std::vector<float> values(std::size_t(rotary_dim / 2));
    dequantize(TensorType::kF32, factors->data, values);
    for (const float value : values) {
      if (!(std::isfinite(value) && value > 0))
        keys.fail("tensor 'rope_freqs.weight' holds a factor that is not positive; fetch it again");
    }
    divide(frequency, values);
  }
  const bool scaled = type == "linear" || type == "yarn" || factors != nullptr;
  keep_if_special(std::move(frequency), rotary_dim, scaled, c);
  if (magnitude != 1.0)
    c.query_scale = float(magnitude * magnitude / std::sqrt(double(c.head_dim)));
}

}  // namespace kvscope
