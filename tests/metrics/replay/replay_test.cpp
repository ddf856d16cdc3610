#include <gtest/gtest.h>

#include <cmath>

#include "metrics/oracle/skill.h"
#include "metrics/probes/attention_probe.h"
#include "metrics/replay/hit_probe.h"
#include "metrics/replay/oracle_losses.h"
#include "tests/runner/policies/vector_file.h"
#include "tests/runner/trace/recorded.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

// One head whose logits are log W: keys are unit vectors and queries the rows of log W, in
// dimensions that RoPE turns by less than a float32 can show (theta 1e30).
Recorded recorded_of(const std::vector<std::vector<double>>& exp_logits, int prompt_tokens) {
  constexpr int kDim = 32;
  constexpr int kFirst = 16;
  Recorded recorded;
  recorded.facts.n_layers = recorded.facts.n_heads = recorded.facts.n_kv_heads = 1;
  recorded.facts.head_dim = kDim;
  recorded.facts.rope_theta = 1e30;
  recorded.facts.layers = {0};
  recorded.facts.n_tokens = int(exp_logits.size());
  recorded.facts.prompt_tokens = prompt_tokens;
  std::vector<float> qkv(recorded.facts.layer_floats());
  for (std::size_t t = 0; t < exp_logits.size(); ++t) {
    float* row = qkv.data() + t * 3 * kDim;
    for (std::size_t i = 0; i < exp_logits[t].size(); ++i)
      row[kFirst + i] = float(std::log(exp_logits[t][i]) * std::sqrt(double(kDim)));
    row[kDim + kFirst + t] = 1.0F;
  }
  recorded.layers.push_back(std::move(qkv));
  return recorded;
}

double lost_mass_of(const std::string& text, int budget, const Recorded& recorded, int prompt) {
  const auto backend = make_cpu_backend(1);
  FullRows full(recorded.facts, prompt, true);
  HitProbe probe(recorded.facts, full);
  ReplayRequest request{prompt, &full, {{fit_for_replay(text, budget, recorded, prompt), &probe}}};
  TraceReplay(recorded.facts, *backend, request).run(recorded.reader());
  return probe.hits(0, 0).lost_mass / full.group_size();
}

// Worked by hand in policies.md 10 for base.A, B = 4: exact fractions. Sums of three rows of
// float32 softmax of float32 logits below 4 are within 2e-6.
TEST(ReplayedLosses, AreThoseOfThePolicyVectors) {
  const Recorded a = recorded_of(exp_logits({{"exp_logits", "base.A"}}), 5);
  const double tolerance = 2e-6;
  EXPECT_NEAR(lost_mass_of("sliding_window", 4, a, 5), 89.0 / 96, tolerance);
  EXPECT_NEAR(lost_mass_of("streaming_llm:sinks=1", 4, a, 5), 371.0 / 480, tolerance);
  EXPECT_NEAR(lost_mass_of("lru", 4, a, 5), 41.0 / 48, tolerance);
  EXPECT_NEAR(lost_mass_of("random:seed=1234", 4, a, 5), 379.0 / 480, tolerance);
  EXPECT_NEAR(lost_mass_of("h2o:recent=2", 4, a, 5), 413.0 / 480, tolerance);
  EXPECT_NEAR(lost_mass_of("h2o:norm=mean:recent=2", 4, a, 5), 491.0 / 480, tolerance);
  EXPECT_NEAR(lost_mass_of("tova", 4, a, 5), 491.0 / 480, tolerance);
}

TEST(ReplayedLosses, OraclesOfATraceAreThoseOfTheVectors) {
  for (const char* id : {"oracle-base", "oracle-greedy-gap"}) {
    const nlohmann::json& vector = policy_vector(id);
    const int prompt = vector.at("input").at("prompt_len");
    const Recorded recorded = recorded_of(exp_logits(vector.at("input")), prompt);
    const auto backend = make_cpu_backend(1);
    FullRows full(recorded.facts, prompt, true);
    TraceReplay(recorded.facts, *backend, {prompt, &full, {}}).run(recorded.reader());
    const auto attention = full.attention(0);
    const OracleLosses losses =
        oracle_losses(attention, FutureMass(attention), {vector.at("params").at("B"), true}, true);
    const nlohmann::json& expect = vector.at("expect");
    EXPECT_NEAR(losses.optimal, double(expect.at("optimal_lost_mass").at("val")), 2e-6) << id;
    EXPECT_NEAR(losses.greedy, double(expect.at("greedy_lost_mass").at("val")), 2e-6) << id;
    EXPECT_LE(losses.step, losses.optimal + 2e-6) << id;
  }
}

// After a dense prompt layer 0 of a live run is the replay: the live probe measures with ghost keys
// what the replay looks up.
TEST(HitProbe, MeasuresWhatTheLiveProbeMeasuresInLayer0) {
  constexpr int kTokens = 200;
  constexpr int kPrompt = 60;
  TinyEngine tiny(gqa_shape(), 2);
  const auto ids = random_ids(kTokens);
  const Recorded recorded = record_all_layers(tiny, ids, kPrompt);
  const ModelConfig& c = tiny.model.config;
  for (const std::string text : {"h2o", "tova", "sliding_window", "snapkv", "knorm", "lru"}) {
    const auto policy = fit_for_replay(text, 20, recorded, kPrompt);
    AttentionProbe live({c.n_layers, c.n_kv_heads, c.group()});
    ScoreRequest request;
    request.tokens = ids;
    request.prompt_tokens = kPrompt;
    request.first_scored = kTokens;
    const ScoreArm arm{policy, &live, false};
    ASSERT_TRUE(tiny.engine.score(request, {&arm, 1}));
    const ProbeSummary wanted = live.summary();

    FullRows full(recorded.facts, kPrompt, false);
    HitProbe probe(recorded.facts, full);
    TraceReplay(recorded.facts, *tiny.backend, {kPrompt, &full, {{policy, &probe}}})
        .run(recorded.reader());
    HeadHits hits;
    for (int h = 0; h < c.n_kv_heads; ++h) hits.add(probe.hits(0, h));
    EXPECT_EQ(hits.n, wanted.mass_hit.by_layer[0].n) << text;
    // Means of thousands of ratios, each from float32 weights.
    EXPECT_NEAR(hits.mass_hit(), wanted.mass_hit.by_layer[0].mean, 1e-6) << text;
    // Counts of the same sets, summed in another order.
    EXPECT_NEAR(hits.hit_at_32 / double(hits.n), wanted.hit_at_32.by_layer[0].mean, 1e-12) << text;
    // Where rounding moves the crossing token of a few rows, their ratio moves by 1 / its set.
    EXPECT_NEAR(hits.hit_at_p90 / double(hits.n), wanted.hit_at_p90.by_layer[0].mean, 1e-4) << text;
  }
}

TEST(HitProbe, FindsEverythingWhereTheBudgetHoldsEverything) {
  TinyEngine tiny(gqa_shape());
  const Recorded recorded = record_all_layers(tiny, random_ids(150), 0);
  FullRows full(recorded.facts, 0, false);
  HitProbe probe(recorded.facts, full);
  TraceReplay(recorded.facts, *tiny.backend,
              {0, &full, {{fit_for_replay("h2o", 150, recorded, 0), &probe}}})
      .run(recorded.reader());
  for (int layer = 0; layer < recorded.facts.n_layers; ++layer) {
    const HeadHits& hits = probe.hits(layer, 1);
    EXPECT_EQ(hits.n, 150 * recorded.facts.shape().group());
    EXPECT_EQ(hits.lost_mass, 0.0);
    EXPECT_EQ(hits.hit_at_32, double(hits.n));
    EXPECT_EQ(hits.hit_at_p90, double(hits.n));
  }
}

TEST(OracleLosses, BoundEveryEvictionPolicyOfTheSameBudget) {
  TinyEngine tiny(gqa_shape());
  for (const int prompt : {0, 40}) {
    const Recorded recorded = record_all_layers(tiny, random_ids(90), prompt);
    FullRows full(recorded.facts, prompt, true);
    std::vector<std::unique_ptr<HitProbe>> probes;
    ReplayRequest request{prompt, &full, {}};
    for (const char* text : {"h2o", "tova", "sliding_window", "streaming_llm", "random:seed=2",
                             "lru", "scissorhands", "knorm", "keydiff"}) {
      probes.push_back(std::make_unique<HitProbe>(recorded.facts, full));
      request.arms.push_back({fit_for_replay(text, 12, recorded, prompt), probes.back().get()});
    }
    TraceReplay replay(recorded.facts, *tiny.backend, request);
    const auto layer_done = [&](std::size_t index) {
      for (int h = 0; h < recorded.facts.n_kv_heads; ++h) {
        const auto attention = full.attention(h);
        const OracleLosses oracles =
            oracle_losses(attention, FutureMass(attention), {12, true}, prompt > 0);
        // Group means are float32: sums of up to 90 rows are within 1e-5.
        EXPECT_LE(oracles.step, oracles.optimal + 1e-5);
        EXPECT_LE(oracles.optimal, oracles.greedy + 1e-9);
        EXPECT_EQ(oracles.prefill.has_value(), prompt > 0);
        for (const auto& probe : probes)
          EXPECT_LE(oracles.optimal, probe->hits(int(index), h).lost_mass / 3 + 1e-5);
      }
    };
    ASSERT_TRUE(replay.run(recorded.reader(), layer_done));
  }
}

}  // namespace
}  // namespace kvscope
