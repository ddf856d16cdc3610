#include "runner/model/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runner/base/sha256.h"
#include "runner/model/dequantize.h"

namespace kvscope {
namespace {

constexpr int kLargest = 1 << 30;

// Positive integer key; `fallback` < 1: required.
int positive(const GgufFile& file, std::string_view key, int fallback = 0) {
  const auto value = file.integer(key);
  if (!value && fallback > 0) return fallback;
  if (!value) file.fail("key " + quoted(key) + " is missing; convert the model again");
  if (*value < 1 || *value > kLargest) {
    file.fail("key " + quoted(key) + " is " + std::to_string(*value) +
              ", not a positive size; convert the model again");
  }
  return static_cast<int>(*value);
}

double positive_real(const GgufFile& file, std::string_view key,
                     std::optional<double> fallback = std::nullopt) {
  const std::optional<double> value = file.has(key) ? file.real(key) : fallback;
  if (!value) file.fail("key " + quoted(key) + " is missing; convert the model again");
  if (!(std::isfinite(*value) && *value > 0)) {
    file.fail("key " + quoted(key) + " is not a positive number; convert the model again");
  }
  return *value;
}

void refuse_unsupported(const GgufFile& file) {
  const auto architecture = file.string("general.architecture");
  if (!architecture) file.fail("key 'general.architecture' is missing; is this a model?");
  if (*architecture != "llama") {
    file.fail("architecture " + quoted(*architecture) +
              " is not supported; use a model of architecture 'llama'");
  }
  if (file.integer("split.count").value_or(1) > 1) {
    file.fail("is one part of a split model; merge the parts into one file first");
  }
  if (file.integer("llama.expert_count").value_or(0) > 0) {
    file.fail("mixture-of-experts models are not supported; use a dense model");
  }
  bool scaled = file.tensor("rope_freqs.weight") != nullptr || file.has("llama.rope.scale_linear");
  if (file.string("llama.rope.scaling.type").value_or("") != "none") {
    const std::string_view prefix = "llama.rope.scaling.";
    const auto first = file.metadata().lower_bound(prefix);
    scaled |= first != file.metadata().end() && first->first.starts_with(prefix);
  }
  if (scaled) file.fail("RoPE scaling is not supported; use a model without it");
}

ModelConfig read_config(const GgufFile& file) {
  refuse_unsupported(file);
  ModelConfig c;
  c.architecture = "llama";
  c.name = file.string("general.name").value_or("");
  if (c.name.empty()) c.name = std::filesystem::path(file.name()).stem().string();
  c.n_layers = positive(file, "llama.block_count");
  c.d_model = positive(file, "llama.embedding_length");
  c.d_ff = positive(file, "llama.feed_forward_length");
  c.context_length = positive(file, "llama.context_length");
  c.n_heads = positive(file, "llama.attention.head_count");
  c.n_kv_heads = positive(file, "llama.attention.head_count_kv", c.n_heads);
  if (c.n_heads % c.n_kv_heads != 0) {
    file.fail(std::to_string(c.n_heads) + " query heads cannot share " +
              std::to_string(c.n_kv_heads) + " KV heads evenly; the file is damaged");
  }
  if (!file.has("llama.attention.key_length") && c.d_model % c.n_heads != 0) {
    file.fail("width " + std::to_string(c.d_model) + " is no multiple of its " +
              std::to_string(c.n_heads) + " heads; the file is damaged");
  }
  c.head_dim = positive(file, "llama.attention.key_length", c.d_model / c.n_heads);
  const int value_dim = positive(file, "llama.attention.value_length", c.head_dim);
  const int rope_dim = positive(file, "llama.rope.dimension_count", c.head_dim);
  if (c.head_dim % 2 != 0 || value_dim != c.head_dim || rope_dim != c.head_dim) {
    file.fail("head sizes (key " + std::to_string(c.head_dim) + ", value " +
              std::to_string(value_dim) + ", RoPE " + std::to_string(rope_dim) +
              ") must be even and equal; use another model");
  }
  if (c.head_dim > kMaxHeadDim) {
    file.fail("heads of " + std::to_string(c.head_dim) + " dimensions are wider than the " +
              std::to_string(kMaxHeadDim) + " this program handles; use another model");
  }
  if (std::int64_t{c.n_heads} * c.head_dim > kLargest) {
    file.fail("its heads are impossibly wide; the file is damaged");
  }
  c.rms_eps = static_cast<float>(positive_real(file, "llama.attention.layer_norm_rms_epsilon"));
  c.rope_theta = positive_real(file, "llama.rope.freq_base", c.rope_theta);
  c.tied_head = file.tensor("output.weight") == nullptr;
  return c;
}

// x − x is 0 or NaN: lanes of it, so that the loop vectorises.
bool all_finite(std::span<const float> values) {
  std::array<float, 16> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= values.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      lanes[lane] += values[i + lane] - values[i + lane];
  }
  for (; i < values.size(); ++i) lanes[0] += values[i] - values[i];
  return std::all_of(lanes.begin(), lanes.end(), [](float x) { return x == 0.0F; });
}

class GgufModel final : public WeightSource {
 public:
  explicit GgufModel(std::shared_ptr<const GgufFile> file)
      : file_(std::move(file)), config_(read_config(*file_)) {
    config_.n_vocab = count_vocabulary();
    check_tensors();
  }

  const ModelConfig& config() const override { return config_; }
  bool has(std::string_view name) const override { return file_->tensor(name) != nullptr; }

  void read_rows(std::string_view name, int n_out, int n_in, int first, int n,
                 float* out) const override {
    const GgufTensor& tensor = require(name, n_out, n_in);
    const auto row = static_cast<std::size_t>(n_in);
    const std::span<float> values(out, static_cast<std::size_t>(n) * row);
    // A row is a whole number of blocks (checked by the parser).
    const std::size_t row_bytes = tensor.data.size() / static_cast<std::size_t>(n_out);
    dequantize(tensor.type,
               tensor.data.subspan(static_cast<std::size_t>(first) * row_bytes,
                                   static_cast<std::size_t>(n) * row_bytes),
               values);
    if (all_finite(values)) return;
    const auto bad =
        std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
    file_->fail("tensor " + quoted(name) + " holds a non-finite value at element " +
                std::to_string(static_cast<std::size_t>(first) * row +
                               static_cast<std::size_t>(bad - values.begin())) +
                "; the file is damaged, fetch it again");
  }

  const std::string& sha256() const override {
    std::call_once(hashed_, [this] { sha256_ = sha256_hex(file_->bytes()); });
    return sha256_;
  }

 private:
  const GgufTensor& require(std::string_view name, int n_out, int n_in) const {
    const GgufTensor* tensor = file_->tensor(name);
    if (tensor == nullptr) {
      file_->fail("tensor " + quoted(name) + " is missing; the file is incomplete, fetch it again");
    }
    const std::array<std::uint64_t, 4> wanted = {static_cast<std::uint64_t>(n_in),
                                                 static_cast<std::uint64_t>(n_out), 1, 1};
    if (tensor->dims != wanted) {
      file_->fail("tensor " + quoted(name) + " has shape " + shape(tensor->dims) + ", not " +
                  shape(wanted) + "; the file contradicts itself, convert the model again");
    }
    return *tensor;
  }

  static std::string shape(const std::array<std::uint64_t, 4>& dims) {
    std::string text = "[" + std::to_string(dims[0]);
    std::size_t n = dims.size();
    while (n > 1 && dims[n - 1] == 1) --n;
    for (std::size_t i = 1; i < n; ++i) text += ", " + std::to_string(dims[i]);
    return text + "]";
  }

  int count_vocabulary() const {
    const GgufTensor* embedding = file_->tensor("token_embd.weight");
    if (embedding == nullptr)
      file_->fail("tensor 'token_embd.weight' is missing; is this a model?");
    const std::uint64_t rows = embedding->dims[1];
    if (rows > static_cast<std::uint64_t>(kLargest))
      file_->fail("its vocabulary is impossibly big");
    const auto tokens = file_->metadata().find("tokenizer.ggml.tokens");
    if (tokens != file_->metadata().end() && tokens->second.count != rows) {
      file_->fail("lists " + std::to_string(tokens->second.count) + " tokens for " +
                  std::to_string(rows) + " embedding rows; convert the model again");
    }
    return static_cast<int>(rows);
  }

  // Every tensor of the architecture is there with its shape, and no other: one that the forward
  // pass would not use (a bias, a table of RoPE factors) would make its numbers wrong without
  // notice.
  void check_tensors() const {
    const ModelConfig& c = config_;
    const int d_query = c.n_heads * c.head_dim;
    const int d_kv = c.n_kv_heads * c.head_dim;
    std::set<std::string, std::less<>> known;
    const auto check = [&](const std::string& name, int n_out, int n_in) {
      require(name, n_out, n_in);
      known.insert(name);
    };
    check("token_embd.weight", c.n_vocab, c.d_model);
    for (int layer = 0; layer < c.n_layers; ++layer) {
      const std::string blk = "blk." + std::to_string(layer) + ".";
      check(blk + "attn_norm.weight", 1, c.d_model);
      check(blk + "attn_q.weight", d_query, c.d_model);
      check(blk + "attn_k.weight", d_kv, c.d_model);
      check(blk + "attn_v.weight", d_kv, c.d_model);
      check(blk + "attn_output.weight", c.d_model, d_query);
      check(blk + "ffn_norm.weight", 1, c.d_model);
      check(blk + "ffn_gate.weight", c.d_ff, c.d_model);
      check(blk + "ffn_up.weight", c.d_ff, c.d_model);
      check(blk + "ffn_down.weight", c.d_model, c.d_ff);
    }
    check("output_norm.weight", 1, c.d_model);
    if (!c.tied_head) check("output.weight", c.n_vocab, c.d_model);
    for (const auto& [name, tensor] : file_->tensors()) {
      if (!known.contains(name)) {
        file_->fail("tensor " + quoted(name) +
                    " is not part of a plain Llama model; results without it would be wrong, use "
                    "another model");
      }
    }
  }

  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  mutable std::once_flag hashed_;
  mutable std::string sha256_;
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf_model(const std::filesystem::path& path) {
  return open_gguf_model(GgufFile::open(path));
}

std::unique_ptr<WeightSource> open_gguf_model(std::shared_ptr<const GgufFile> file) {
  return std::make_unique<GgufModel>(std::move(file));
}

}  // namespace kvscope
