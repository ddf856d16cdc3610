// Vectors of policies that look at attention or positions.
#include <algorithm>
#include <array>
#include <map>

#include "runner/conform/vector_tools.h"
#include "runner/policies/rule_state.h"
#include "runner/policies/score_state.h"

namespace kvscope::conform {
namespace {

using Scores = std::map<std::int32_t, double>;  // by position

// What a state says of its tokens before the selection, as the vectors name it.
Scores scores_of(const PolicyState& state, const Positions& slots) {
  Scores scores;
  if (const auto* rule = dynamic_cast<const RuleState*>(&state)) {
    const auto values = rule->scores();
    for (std::size_t i = 0; i < values.size(); ++i) scores[slots[i]] = values[i];
  } else if (const auto* scored = dynamic_cast<const ScoredState*>(&state)) {
    const auto values = scored->score().scores(slots);
    // A low count is the negative score (scissorhands).
    for (std::size_t i = 0; i < values.size(); ++i) scores[slots[i]] = -values[i];
  }
  return scores;
}

Scores scores_of(const KeptHead& head, bool by_count) {
  Scores scores;
  if (head.state != nullptr) return scores_of(*head.state, head.positions);
  for (std::size_t i = 0; i < head.positions.size(); ++i) {
    if (by_count && !head.count.empty()) {
      scores[head.positions[i]] = head.count[i];
    } else if (!head.statistic.empty()) {
      const double rows = head.count.empty() ? 1.0 : head.count[i];
      scores[head.positions[i]] = head.statistic[i] / rows;
    }
  }
  return scores;
}

// Prompt-end cut, then one selection a decode step, with every score that the vector states.
std::string check_steps(const Json& vector, const Json& steps, const std::string& text,
                        const MakePolicy& make, int n_kv_heads) {
  const SyntheticLayer layer = layer_of(vector.at("input"), n_kv_heads);
  const int prompt_tokens = vector.at("input").at("prompt_len");
  Replay replay(fitted(text, vector.at("params").at("B"), prompt_tokens, false, make),
                std::span(&layer, 1));
  for (const Json& step : steps) {
    const int t = step.at("t");
    const std::string at = "t=" + std::to_string(t) + ": ";
    Scores scores;
    if (t == prompt_tokens - 1) {
      replay.prompt(prompt_tokens);
      if (replay.fault().empty() && !replay.cut().empty())
        scores = scores_of(replay.cut().front(), step.contains("last_use"));
    } else {
      // The vector's scores are those before the eviction, so observe alone first.
      if (replay.state() != nullptr) {
        Replay copy = replay.fork();
        copy.observe(t);
        scores = scores_of(*copy.state(), copy.slots());
      }
      replay.step(t);
    }
    if (!replay.fault().empty()) return at + replay.fault();
    for (const char* name : {"score", "last_use", "low_count"}) {
      if (!step.contains(name)) continue;
      for (const auto& [position, score] : scores) {
        const auto& wanted = step.at(name).at(std::to_string(position));
        const std::string what = at + name + " of " + std::to_string(position);
        if (auto wrong = unless_near(what, score, wanted); !wrong.empty()) return wrong;
      }
    }
    for (int h = 0; h < n_kv_heads; ++h) {
      auto wrong = unless_equal(at + "visible", replay.visible(h), step.at("visible"));
      if (wrong.empty()) wrong = unless_equal(at + "kept", replay.kept(h), step.at("kept"));
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

std::string run_steps(const Json& vector, const std::string& text, const MakePolicy& make) {
  const Json& steps = vector.at("expect").at("steps");
  if (auto wrong = check_steps(vector, steps, text, make, 1); !wrong.empty()) return wrong;
  // Two KV heads of one query head each share a set where the policy keeps one a layer.
  const bool two_heads =
      vector.at("input").contains("exp_logits") && vector.at("input").at("exp_logits").is_array();
  return two_heads ? check_steps(vector, steps, text, make, 2) : "";
}

// Kept sets after the prompt and each step.
std::string check_sets(const Json& vector, const Json& sets, const std::string& text,
                       const MakePolicy& make, int n_kv_heads, int kv_head) {
  const SyntheticLayer layer = layer_of(vector.at("input"), n_kv_heads);
  const int prompt_tokens = vector.at("input").at("prompt_len");
  Replay replay(fitted(text, vector.at("params").value("B", 4), prompt_tokens, false, make),
                std::span(&layer, 1));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const int t = prompt_tokens - 1 + static_cast<int>(i);
    if (i == 0) {
      replay.prompt(prompt_tokens);
    } else {
      replay.step(t);
    }
    if (!replay.fault().empty()) return replay.fault();
    const auto wrong =
        unless_equal("t=" + std::to_string(t) + ": kept", replay.kept(kv_head), sets[i]);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string run_kept(const Json& vector, const std::string& text, const MakePolicy& make) {
  return check_sets(vector, vector.at("expect").at("kept"), text, make, 1, 0);
}

std::string run_never_hidden(const Json& vector, const std::string& text, const MakePolicy& make) {
  return check_sets(vector, vector.at("expect").at("normative_h2o_kept"), text, make, 1, 0);
}

std::string run_heads(const Json& vector, const std::string& text, const MakePolicy& make) {
  const Json& expect = vector.at("expect");
  auto wrong = check_sets(vector, expect.at("per_head").at("A"), text, make, 2, 0);
  if (wrong.empty()) wrong = check_sets(vector, expect.at("per_head").at("B"), text, make, 2, 1);
  if (wrong.empty()) wrong = check_sets(vector, expect.at("head_mean"), text, make, 1, 0);
  if (wrong.empty()) wrong = check_steps(vector, expect.at("steps_head_mean"), text, make, 1);
  return wrong;
}

std::string run_chunks(const Json& vector, const std::string& text, const MakePolicy& make) {
  const Json& expect = vector.at("expect");
  const SyntheticLayer layer = layer_of(vector.at("input"));
  const PolicyPtr streamed =
      fitted(text + ":prefill=streaming:chunk=2", 4, layer.table.n_tokens, false, make);
  if (streamed->prefill() != PrefillMode::kStreaming || streamed->chunk() != 2)
    return "is not streamed in chunks of 2";
  Replay replay(streamed, std::span(&layer, 1));
  for (const Json& row : expect.at("rows")) {
    replay.chunk(row.at("chunk").front(), row.at("chunk").back());
    if (!replay.fault().empty()) return replay.fault();
    auto wrong = unless_equal("visible", replay.visible(), row.at("visible_at_end"));
    if (wrong.empty()) wrong = unless_equal("kept", replay.kept(), row.at("kept"));
    if (!wrong.empty()) return wrong;
  }
  Replay monolithic(fitted(text, 4, 8, false, make), std::span(&layer, 1));
  monolithic.prompt(8);
  return unless_equal("kept of the dense prompt", monolithic.kept(), expect.at("monolithic_kept"));
}

std::string run_paper(const Json& vector, const std::string& text, const MakePolicy& make) {
  const Json& expect = vector.at("expect");
  const PolicyPtr policy = fitted(text, 7, 9, false, make);
  if (policy->positions() != PositionMode::kCacheRelative)
    return "does not rank positions within the cache";
  KeptHead start;
  start.positions = vector.at("input").at("resident").get<Positions>();
  const auto state = policy->make_state({0, 0, 1}, start);
  Positions visible = start.positions;
  visible.push_back(vector.at("input").at("incoming"));
  if (auto wrong = unless_equal("visible", visible, expect.at("visible")); !wrong.empty())
    return wrong;
  const std::vector<float> uniform(visible.size(), 1.0F / static_cast<float>(visible.size()));
  state->observe({visible, uniform, 1});
  Positions kept;
  for (const auto slot : state->select(visible)) kept.push_back(visible.at(slot));
  return unless_equal("kept", kept, expect.at("kept_after"));
}

std::string run_snapkv(const Json& vector, const std::string&, const MakePolicy& make) {
  const Json& params = vector.at("params");
  const SyntheticLayer layer = layer_of(vector.at("input"));
  const int prompt_tokens = vector.at("input").at("prompt_len");
  const std::string text = "snapkv:window=" + std::to_string(params.at("window").get<int>()) +
                           ":kernel=" + std::to_string(params.at("kernel").get<int>()) +
                           ":pool=" + params.at("pool").get<std::string>() +
                           ":gqa=" + params.value("gqa_agg", "mean") +
                           ":order=" + params.value("order", "agg_pool");
  Replay replay(fitted(text, params.at("B"), prompt_tokens, false, make), std::span(&layer, 1));
  replay.prompt(prompt_tokens);
  if (!replay.fault().empty()) return replay.fault();
  return unless_equal("kept", replay.kept(), vector.at("expect").at("kept"));
}

}  // namespace

std::span<const VectorCase> attention_vectors() {
  static constexpr std::array kTable = {
      VectorCase{"full-1", "full", "full", run_steps},
      VectorCase{"window-1", "sliding_window", "sliding_window", run_steps},
      VectorCase{"streaming-1", "streaming_llm", "streaming_llm:sinks=1", run_steps},
      VectorCase{"streaming-paper", "streaming_llm", "streaming_llm:sinks=4", run_paper},
      VectorCase{"random-1", "random", "random:seed=1234", run_steps},
      VectorCase{"lru-thr", "lru", "lru", run_steps},
      VectorCase{"lru-topk", "lru", "lru:use=topk:k=2", run_steps},
      VectorCase{"h2o-sum", "h2o", "h2o:recent=2", run_steps},
      VectorCase{"h2o-mean", "h2o", "h2o:norm=mean:recent=2", run_steps},
      VectorCase{"h2o-recent=B", "h2o", "h2o:recent=4", run_kept},
      VectorCase{"h2o-heads", "h2o", "h2o:recent=2", run_heads},
      VectorCase{"h2o-chunked", "h2o", "h2o:recent=2", run_chunks},
      VectorCase{"h2o-sim-resurrection", "h2o", "h2o:recent=2", run_never_hidden},
      VectorCase{"scissorhands-m1", "scissorhands", "scissorhands:history=3:recent=1:drop=1",
                 run_steps},
      VectorCase{"scissorhands-m2", "scissorhands", "scissorhands:history=3:recent=1:drop=2",
                 run_steps},
      VectorCase{"tova-1head", "tova", "tova", run_steps},
      VectorCase{"tova-2heads", "tova", "tova", run_steps},
      VectorCase{"ties-uniform", "tova", "tova", run_steps},
      VectorCase{"snapkv-avg", "snapkv", "", run_snapkv},
      VectorCase{"snapkv-max", "snapkv", "", run_snapkv},
      VectorCase{"snapkv-gqa-agg_pool", "snapkv", "", run_snapkv},
      VectorCase{"snapkv-gqa-pool_agg", "snapkv", "", run_snapkv},
      VectorCase{"snapkv-gqa-max", "snapkv", "", run_snapkv},
  };
  return kTable;
}

}  // namespace kvscope::conform
