// Vectors of budgets of layers and heads, through policies that have them.
#include <algorithm>
#include <array>
#include <cstdio>

#include "runner/conform/vector_tools.h"

namespace kvscope::conform {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string layer_budgets(const PolicyPtr& policy, int n_layers, int prompt_tokens,
                          const Json& wanted) {
  Positions budgets;
  for (int layer = 0; layer < n_layers; ++layer)
    budgets.push_back(std::min(prompt_tokens, policy->unit_budget({layer, 0, n_layers})));
  return unless_equal("budgets", budgets, wanted);
}

std::string run_pyramid(const Json& vector, const std::string& more, const MakePolicy& make) {
  const Json& params = vector.at("params");
  const int prompt_tokens = params.at("prompt_len");
  const bool as_kvpress = params.contains("compression_ratio");
  const int budget =
      as_kvpress ? static_cast<int>(
                       prompt_tokens * (1.0 - params.at("compression_ratio").get<double>()) + 1e-9)
                 : params.at("cap_per_layer_incl_window").get<int>();
  const std::string text = "snapkv:window=" + std::to_string(params.at("window").get<int>()) +
                           "+pyramid:beta=" + number(params.at("beta").get<double>()) + more;
  return layer_budgets(fitted(text, budget, prompt_tokens, false, make), params.at("layers"),
                       prompt_tokens, vector.at("expect").at(as_kvpress ? "budgets" : "spec"));
}

// The scores as those of one prompt row, followed by a window of one token.
std::string run_adakv(const Json& vector, const std::string&, const MakePolicy& make) {
  const Json& params = vector.at("params");
  const Json& scores = vector.at("input").at("scores");
  const int n_heads = static_cast<int>(scores.size());
  const int prompt_tokens = static_cast<int>(scores[0].size()) + 1;
  std::vector<float> weights;
  for (const Json& head : scores) {
    for (const Json& score : head) weights.push_back(score.at("val").get<float>());
    weights.push_back(0.0F);
  }
  const std::string text =
      "snapkv:window=1:kernel=1+adakv:alpha=" + number(params.at("alpha").get<double>());
  const int budget = params.at("base_per_head_excl_window").get<int>() + 1;
  PromptLayer view;
  view.n_layers = 1;
  view.n_heads = view.n_kv_heads = n_heads;
  view.prompt_tokens = prompt_tokens;
  view.column_weights = weights;
  const auto heads = fitted(text, budget, prompt_tokens, false, make)->select_prompt(view);
  for (int h = 0; h < n_heads; ++h) {
    Positions kept = heads.at(h).positions;
    if (kept.empty() || kept.back() != prompt_tokens - 1) return "the window was not kept";
    kept.pop_back();
    const auto wrong =
        unless_equal("head " + std::to_string(h), kept, vector.at("expect").at("spec_kept").at(h));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

// The last two rows of three layers, given by their exp(logit).
std::vector<SyntheticLayer> cake_layers(const Json& input, int prompt_tokens) {
  std::vector<SyntheticLayer> layers;
  for (const Json& window : input.at("window_exp_logits")) {
    SyntheticLayer layer;
    layer.table = AttentionTable(1, prompt_tokens);
    const int first = prompt_tokens - static_cast<int>(window.size());
    for (int r = 0; r < static_cast<int>(window.size()); ++r) {
      for (int i = 0; i < static_cast<int>(window[r].size()); ++i)
        layer.table.at(0, first + r, i) = window[r][i].get<double>();
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string run_cascade(const Json& vector, const std::string& text, const MakePolicy& make) {
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const int window = vector.at("params").at("window");
  const auto layers = cake_layers(vector.at("input"), prompt_tokens);
  const PolicyPtr policy =
      fitted(text, vector.at("params").at("B_mean_incl_window"), prompt_tokens, false, make);
  const auto cascade = policy->make_cascade();
  if (cascade == nullptr) return "its layers do not share a budget";
  std::vector<Positions> kept;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const DensePrompt dense(layers[layer], policy->prompt_need(), prompt_tokens);
    kept.push_back(
        cascade->cut(dense.view(static_cast<int>(layer), static_cast<int>(layers.size())))
            .front()
            .positions);
    for (const auto& recut : cascade->take_recuts())
      kept[recut.layer] = recut.heads.front().positions;
    const Json& stage = vector.at("expect").at("stages").at(layer);
    for (std::size_t l = 0; l < kept.size(); ++l) {
      Positions prefix = kept[l];
      std::erase_if(prefix, [&](std::int32_t p) { return p >= prompt_tokens - window; });
      const auto wrong =
          unless_equal("layer " + std::to_string(l) + " after layer " + std::to_string(layer),
                       prefix, stage.at("kept").at(l));
      if (!wrong.empty()) return wrong;
      if (kept[l].size() != prefix.size() + static_cast<std::size_t>(window))
        return "the window was not kept";
    }
  }
  return {};
}

std::string run_cake_decode(const Json& vector, const std::string& text, const MakePolicy& make) {
  const SyntheticLayer layer = layer_of(vector.at("input"));
  const int t = vector.at("input").at("t");
  const int budget =
      vector.at("params").at("hh").get<int>() + vector.at("params").at("window").get<int>();
  const PolicyPtr policy = fitted(text, budget, t, false, make);
  // Neighbours are neighbours in position, wherever their slots lie.
  for (const bool reversed : {false, true}) {
    KeptHead start;
    for (int i = 0; i < t; ++i) start.positions.push_back(i);
    if (reversed) std::reverse(start.positions.begin(), start.positions.end());
    start.budget_tokens = budget;
    const auto state = policy->make_state({0, 0, 1}, start);
    if (state == nullptr) return "has no rule for decoding";
    Positions slots = start.positions;
    slots.push_back(t);
    const auto a = probabilities(layer.table, 0, 1, t, slots);
    state->observe({slots, a, 1});
    Positions kept;
    for (const auto slot : state->select(slots)) kept.push_back(slots.at(slot));
    std::sort(kept.begin(), kept.end());
    const auto wrong = unless_equal("kept", kept, vector.at("expect").at("kept"));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

std::span<const VectorCase> budget_vectors() {
  static constexpr std::array kTable = {
      VectorCase{"pyramid-L4-c40-w8-b4-q200", "snapkv", "", run_pyramid},
      VectorCase{"pyramid-L4-c40-w8-b20-q200", "snapkv", "", run_pyramid},
      VectorCase{"pyramid-L32-c128-w8-b20-q4096", "snapkv", "", run_pyramid},
      VectorCase{"pyramid-L4-c40-w8-b20-q60", "snapkv", "", run_pyramid},
      VectorCase{"pyramid-L4-c40-w8-b20-q70", "snapkv", "", run_pyramid},
      VectorCase{"pyramid-L4-c40-w8-b20-q39", "snapkv", "", run_pyramid},
      VectorCase{"pyramid-kvpress-L4-r0.8-w8-b4-q200", "snapkv", ":compat=kvpress", run_pyramid},
      VectorCase{"adakv-b2-a0.0", "snapkv", "", run_adakv},
      VectorCase{"adakv-b3-a0.0", "snapkv", "", run_adakv},
      VectorCase{"adakv-b2-a0.2", "snapkv", "", run_adakv},
      VectorCase{"adakv-b3-a0.2", "snapkv", "", run_adakv},
      VectorCase{"adakv-b2-a0.5", "snapkv", "", run_adakv},
      VectorCase{"adakv-b3-a0.5", "snapkv", "", run_adakv},
      VectorCase{"adakv-b2-a1.0", "snapkv", "", run_adakv},
      VectorCase{"adakv-b3-a1.0", "snapkv", "", run_adakv},
      VectorCase{"cake-1", "cake", "cake:window=2:kernel=5:gamma=5", run_cascade},
      VectorCase{"cake-decode", "cake", "cake:window=2:kernel=3", run_cake_decode},
  };
  return kTable;
}

}  // namespace kvscope::conform
