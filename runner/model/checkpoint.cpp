#include "runner/model/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "runner/model/gguf_file.h"
#include "runner/model/stored_rows.h"

namespace kvscope {
namespace {

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

struct Part {
  std::string_view name;
  int n_out;  // 1 for vectors
  int n_in;
};

// Tensors of every layer.
std::vector<Part> layer_parts(const ModelConfig& c) {
  const int d_query = c.n_heads * c.head_dim;
  const int d_kv = c.n_kv_heads * c.head_dim;
  const BlockForm& form = c.form;
  std::vector<Part> parts = {
      {"attn_norm.weight", 1, c.d_model},         {"attn_q.weight", d_query, c.d_model},
      {"attn_k.weight", d_kv, c.d_model},         {"attn_v.weight", d_kv, c.d_model},
      {"attn_output.weight", c.d_model, d_query}, {"ffn_norm.weight", 1, c.d_model}};
  if (is_gated(form.activation)) parts.push_back({"ffn_gate.weight", c.d_ff, c.d_model});
  parts.push_back({"ffn_up.weight", c.d_ff, c.d_model});
  parts.push_back({"ffn_down.weight", c.d_model, c.d_ff});
  const auto add_if = [&](bool there, std::initializer_list<Part> more) {
    if (there) parts.insert(parts.end(), more);
  };
  add_if(form.norm == Norm::kLayer,
         {{"attn_norm.bias", 1, c.d_model}, {"ffn_norm.bias", 1, c.d_model}});
  add_if(form.qkv_bias,
         {{"attn_q.bias", 1, d_query}, {"attn_k.bias", 1, d_kv}, {"attn_v.bias", 1, d_kv}});
  add_if(form.qk_norm,
         {{"attn_q_norm.weight", 1, c.head_dim}, {"attn_k_norm.weight", 1, c.head_dim}});
  add_if(form.output_bias, {{"attn_output.bias", 1, c.d_model}});
  add_if(form.mlp_bias && is_gated(form.activation), {{"ffn_gate.bias", 1, c.d_ff}});
  add_if(form.mlp_bias, {{"ffn_up.bias", 1, c.d_ff}, {"ffn_down.bias", 1, c.d_model}});
  add_if(form.post_norms,
         {{"post_attention_norm.weight", 1, c.d_model}, {"post_ffw_norm.weight", 1, c.d_model}});
  return parts;
}

}  // namespace

Checkpoint::Checkpoint(ModelConfig config, std::unique_ptr<const TensorStore> store,
                       std::span<const StoredTensor> names,
                       std::span<const std::string_view> unused)
    : config_(std::move(config)), store_(std::move(store)) {
  find_prefix(names);
  place_all(names);
  refuse_unknown(unused);
}

// Text models within larger ones keep their tensors under another name.
void Checkpoint::find_prefix(std::span<const StoredTensor> names) {
  constexpr std::string_view kUsual = "model.";
  const std::string_view embedding = names.front().stored;
  if (!embedding.starts_with(kUsual)) return;
  for (const char* prefix : {"model.", "language_model.model.", "model.language_model."}) {
    prefix_ = prefix;
    if (store_->has(prefix_ + std::string(embedding.substr(kUsual.size())))) return;
  }
  prefix_ = kUsual;
}

void Checkpoint::place_all(std::span<const StoredTensor> names) {
  const ModelConfig& c = config_;
  place("", "token_embd.weight", 0, c.n_vocab, c.d_model, names);
  if (c.form.learned_positions)
    place("", "position_embd.weight", 0, c.context_length, c.d_model, names);
  const std::vector<Part> parts = layer_parts(c);
  for (int layer = 0; layer < c.n_layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    for (const Part& part : parts) place(block, part.name, layer, part.n_out, part.n_in, names);
  }
  place("", "output_norm.weight", 0, 1, c.d_model, names);
  if (c.form.norm == Norm::kLayer) place("", "output_norm.bias", 0, 1, c.d_model, names);
  if (!c.tied_head) place("", "output.weight", 0, c.n_vocab, c.d_model, names);
}

void Checkpoint::place(const std::string& block, std::string_view part, int layer, int n_out,
                       int n_in, std::span<const StoredTensor> names) {
  const auto named = std::ranges::find(names, part, &StoredTensor::part);
  if (named == names.end())
    store_->fail("this architecture has no tensor " + kvscope::quoted(part));
  Place found{std::string(named->stored), n_out, n_in, n_out, n_in, nullptr, named->plus};
  if (!prefix_.empty() && found.stored.starts_with("model."))
    found.stored = prefix_ + found.stored.substr(std::string_view("model.").size());
  if (const auto mark = found.stored.find('#'); mark != std::string::npos)
    found.stored.replace(mark, 1, std::to_string(layer));
  // A vector's elements are as a matrix's rows.
  const bool is_vector = n_out == 1 && part != "token_embd.weight" && part != "output.weight";
  const int rows = is_vector ? n_in : n_out;
  (is_vector ? found.stored_in : found.stored_out) = stored_out(named->rows, rows, config_);
  store_->require(found.stored, found.stored_out, found.stored_in);
  if (named->rows != StoredRows::kAll) {
    Rows& known = known_rows_[named->rows][rows];
    if (known == nullptr)
      known = std::make_shared<const std::vector<std::int32_t>>(
          stored_rows(named->rows, rows, config_));
    found.rows = known;
  }
  places_.emplace(block + std::string(part), std::move(found));
}

// A tensor that the forward pass would not use (a bias, a table of RoPE factors) would make its
// numbers wrong without notice.
void Checkpoint::refuse_unknown(std::span<const std::string_view> unused) const {
  std::set<std::string_view> used;
  for (const auto& [name, place] : places_) used.insert(place.stored);
  const auto has_no_use = [&](std::string_view name) {
    return std::ranges::any_of(unused, [&](std::string_view some) {
      return name.ends_with(some) || (some.ends_with('.') && name.starts_with(some));
    });
  };
  for (const std::string_view name : store_->names()) {
    if (used.contains(name) || has_no_use(name)) continue;
    store_->fail("tensor " + kvscope::quoted(name) + " is not part of a model of architecture '" +
                 config_.architecture +
                 "' as this program knows it; results without it would be wrong, use another "
                 "model");
  }
}

void Checkpoint::read_stored(const Place& place, int first, int n, float* out) const {
  store_->read_rows(place.stored, place.stored_out, place.stored_in, first, n, out);
  const auto row = static_cast<std::size_t>(place.stored_in);
  const std::span<const float> values(out, static_cast<std::size_t>(n) * row);
  if (all_finite(values)) return;
  const auto bad =
      std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
  store_->fail("tensor " + kvscope::quoted(place.stored) + " holds a non-finite value at element " +
               std::to_string(static_cast<std::size_t>(first) * row +
                              static_cast<std::size_t>(bad - values.begin())) +
               "; the file is damaged, fetch it again");
}

void Checkpoint::read_rows(std::string_view name, int n_out, int n_in, int first, int n,
                           float* out) const {
  const auto found = places_.find(name);
  if (found == places_.end())
    store_->fail("tensor " + kvscope::quoted(name) +
                 " is missing; the file is incomplete, fetch it again");
  const Place& place = found->second;
  if (place.n_out != n_out || place.n_in != n_in) {
    store_->require(place.stored, n_out, n_in);  // says what it has
    store_->fail("tensor " + kvscope::quoted(name) + " was asked for in another shape");
  }
  const auto width = static_cast<std::size_t>(n_in);
  if (place.rows == nullptr) {
    read_stored(place, first, n, out);
  } else if (n_out == 1) {
    std::vector<float> all(static_cast<std::size_t>(place.stored_in));
    read_stored(place, 0, 1, all.data());
    for (std::size_t i = 0; i < width; ++i)
      out[i] = all[static_cast<std::size_t>((*place.rows)[i])];
  } else {
    // Rows that follow each other in the file too are read together.
    for (int i = 0; i < n;) {
      const auto* rows = place.rows->data() + first;
      int end = i + 1;
      while (end < n && rows[end] == rows[end - 1] + 1) ++end;
      read_stored(place, rows[i], end - i, out + static_cast<std::size_t>(i) * width);
      i = end;
    }
  }
  if (place.plus == 0.0F) return;
  const std::span<float> values(out, static_cast<std::size_t>(n) * width);
  for (float& value : values) value += place.plus;
}

}  // namespace kvscope
