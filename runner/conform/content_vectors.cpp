// Vectors of policies that look at keys, values and queries.
#include <array>

#include "runner/conform/vector_tools.h"

namespace kvscope::conform {
namespace {

std::string check_cut(const SyntheticLayer& layer, int budget, const Json& kept,
                      const std::string& text, const MakePolicy& make) {
  Replay replay(fitted(text, budget, layer.table.n_tokens, false, make), std::span(&layer, 1));
  replay.prompt(layer.table.n_tokens);
  if (!replay.fault().empty()) return replay.fault();
  return unless_equal(text + ": kept", replay.kept(), kept);
}

// The official selection protects nothing; here the newest stays anyway.
std::string run_keys(const Json& vector, const std::string& text, const MakePolicy& make) {
  const SyntheticLayer layer = layer_of_contents(vector.at("input"));
  const int budget = vector.at("params").at("B");
  const Json& kept = vector.at("expect").at("kept");
  auto wrong = check_cut(layer, budget, kept, text + ":protect_last=false", make);
  if (wrong.empty()) wrong = check_cut(layer, budget, kept, text, make);
  return wrong;
}

// R is the mean rotation over positions 6 and 7 of a pair of frequency 1, or no rotation.
std::string run_expected(const Json& vector, const std::string& text, const MakePolicy& make) {
  SyntheticLayer layer = layer_of_contents(vector.at("input"));
  if (vector.at("params").at("R")[0][1] != 0) {
    layer.inverse_frequency = {1.0F};
    // Keys are given as they are stored.
    for (int i = 0; i < layer.table.n_tokens; ++i) {
      rotate_pairs(layer.inverse_frequency, -i,
                   std::span(layer.keys).subspan(static_cast<std::size_t>(i) * 2, 2));
    }
  }
  return check_cut(layer, vector.at("params").at("B"), vector.at("expect").at("kept"), text, make);
}

std::string run_paged(const Json& vector, const std::string& text, const MakePolicy& make) {
  const SyntheticLayer layer = layer_of_contents(vector.at("input"));
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const int budget = vector.at("params").at("B");
  Replay replay(fitted(text, budget, prompt_tokens, false, make), std::span(&layer, 1));
  for (const Json& row : vector.at("expect").at("rows")) {
    const int t = row.at("t");
    if (t == prompt_tokens - 1) {
      replay.prompt(prompt_tokens);
    } else {
      replay.step(t);
    }
    if (!replay.fault().empty()) return replay.fault();
    Positions kept;
    for (const Json& page : row.at("pages")) {
      for (const Json& token : page) kept.push_back(token);
    }
    const auto wrong =
        unless_equal("t=" + std::to_string(t) + ": pages", replay.kept(), Json(kept));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

// What a backend is told to read; which pages those are is the backend's part of the vector.
std::string run_quest(const Json& vector, const std::string& text, const MakePolicy& make) {
  const Json& params = vector.at("params");
  const int page = params.at("page");
  const int pages = params.at("page_budget_incl_last");
  const int n_tokens = static_cast<int>(vector.at("input").at("keys").size());
  const auto rule = fitted(text, page * pages, n_tokens, false, make)->read_rule();
  if (rule && rule->page_tokens == page && rule->n_pages == pages) return {};
  return "does not read " + std::to_string(pages) + " pages of " + std::to_string(page);
}

}  // namespace

std::span<const VectorCase> content_vectors() {
  static constexpr std::array kTable = {
      VectorCase{"knorm-1", "knorm", "knorm", run_keys},
      VectorCase{"keydiff-1", "keydiff", "keydiff", run_keys},
      VectorCase{"expected-attention-id", "expected_attention",
                 "expected_attention:n_sink=1:horizon=2:protect_last=false", run_expected},
      VectorCase{"expected-attention-rope", "expected_attention",
                 "expected_attention:n_sink=1:horizon=2:protect_last=false", run_expected},
      VectorCase{"paged-eviction-1", "paged_eviction", "paged_eviction:block=2:sink_blocks=1",
                 run_paged},
      VectorCase{"quest-1", "quest", "quest:page=2", run_quest},
  };
  return kTable;
}

}  // namespace kvscope::conform
