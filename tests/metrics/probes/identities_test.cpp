// The identities behind the probe's quantities (policies.md 9.22) on a real model's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "metrics/probes/output_perturbation.h"
#include "metrics/probes/rebound_mass.h"
#include "metrics/probes/row_part.h"
#include "runner/engine/engine.h"
#include "runner/model/gguf_model.h"
#include "runner/policies/registry.h"
#include "runner/tokenizer/load.h"

namespace kvscope {
namespace {

std::filesystem::path model_path() {
  if (const char* path = std::getenv("KVSCOPE_MODEL")) return path;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "" : home) /
         ".cache/kvscope/SmolLM2-135M-Instruct.Q4_1.gguf";
}

constexpr std::string_view kText =
    "A cache of keys and values grows with every token that a model reads. To keep it small, "
    "tokens "
    "leave it, and whether they were still needed can only be told by asking what attention would "
    "have done with them. The first tokens of a text and the newest ones carry much of its weight; "
    "between them lie names, numbers and the words that a question will be about. An evicted token "
    "that would have been attended to later is a loss that no average shows. So each row is "
    "recomputed over all that was seen, and what fell on the missing part is written down.";

struct Row {  // an AttentionRow that outlives its call
  int layer, kv_head, query_head, position;
  std::vector<float> visible_logits, ghost_logits, visible_output, ghost_output;
  std::vector<std::int32_t> visible_positions, ghost_positions;
};

// Every 16th row with ghosts.
class KeepsRows final : public ProbeSink {
 public:
  std::vector<Row> rows;
  void prompt_cut(int, int, int, std::span<const std::int32_t>, std::span<const float>,
                  std::span<const std::int32_t>, std::span<const float>) override {}
  void attention_row(const AttentionRow& row) override {
    if (row.ghost_logits.empty() || row.position % 16 != 0) return;
    const auto copy = [](auto span) { return std::vector(span.begin(), span.end()); };
    const std::scoped_lock lock(mutex_);
    rows.push_back({row.layer, row.kv_head, row.query_head, row.position, copy(row.visible_logits),
                    copy(row.ghost_logits), copy(row.visible_output), copy(row.ghost_output),
                    copy(row.visible_positions), copy(row.ghost_positions)});
  }
  void evicted(int, int, int, int, int) override {}

 private:
  std::mutex mutex_;
};

// Σ e^(z - shift)·v / Σ e^(z - shift) and its two sums.
struct Weighted {
  double sum = 0;
  std::vector<double> values;
  std::vector<double> output() const {
    std::vector<double> out = values;
    for (double& x : out) x /= sum;
    return out;
  }
};

class Identities : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path())) {
      GTEST_SKIP() << "no model at " << model_path() << "; run scripts/fetch-model";
    }
  }
};

TEST_F(Identities, HoldOnARealModel) {
  const auto file = open_gguf_model(model_path());
  const auto backend = make_cpu_backend(2);
  const Model model = load_model(*file, *backend, DType::kF32, DType::kF32);
  Engine engine(model, *backend);
  const auto ids =
      load_tokenizer(*GgufFile::open(model_path()))->encode(kText, SpecialTokens::kAsText);
  const ModelConfig& c = model.config;
  ASSERT_GT(ids.size(), 80U);

  KeepsRows kept;
  Budget budget;
  budget.tokens = 24;
  const auto policy = fit_policy(parse_policy("h2o"), {budget, int(ids.size()), true});
  std::vector<std::vector<float>> values(
      std::size_t(c.n_layers));  // [tokens][n_kv_heads][head_dim]
  ScoreRequest request;
  request.tokens = ids;
  request.compare_full = true;
  const auto row_floats = std::size_t(c.n_heads + 2 * c.n_kv_heads) * std::size_t(c.head_dim);
  const auto value_floats = std::size_t(c.n_kv_heads) * std::size_t(c.head_dim);
  request.full_rows = [&](int layer, std::span<const float> qkv) {
    for (std::size_t row = 0; row < qkv.size(); row += row_floats) {
      const auto v = qkv.subspan(row + row_floats - value_floats, value_floats);
      values[std::size_t(layer)].insert(values[std::size_t(layer)].end(), v.begin(), v.end());
    }
  };
  const ScoreArm arm{policy, &kept, true};
  const auto result = engine.score(request, {&arm, 1});
  ASSERT_TRUE(result && result->front().error.empty());
  ASSERT_GT(kept.rows.size(), 1000U);

  // Measured at most: 1.3e-7 nats, and 3.7e-8 of the output's norm. Weights are float.
  constexpr double kTolerance = 1e-5;
  const auto d = std::size_t(c.head_dim);
  for (const Row& row : kept.rows) {
    std::vector<float> weights(std::max(row.visible_logits.size(), row.ghost_logits.size()));
    const auto part = [&](const std::vector<float>& logits,
                          const std::vector<std::int32_t>& positions) {
      return row_part(logits, positions, {}, std::span(weights).first(logits.size()));
    };
    const RowPart visible = part(row.visible_logits, row.visible_positions);
    const RowPart ghosts = part(row.ghost_logits, row.ghost_positions);
    const double rebound = rebound_mass(ghosts.lse(), visible.lse());
    ASSERT_NEAR(rebound + mass_hit(ghosts.lse(), visible.lse()), 1, 1e-12);

    // Entropy from the definition.
    double shift = -INFINITY;
    for (const float z : row.visible_logits) shift = std::max(shift, double(z));
    for (const float z : row.ghost_logits) shift = std::max(shift, double(z));
    const auto sum_of = [&](const std::vector<float>& logits) {
      double sum = 0;
      for (const float z : logits) sum += std::exp(double(z) - shift);
      return sum;
    };
    const auto entropy_of = [&](const std::vector<float>& logits, double whole) {
      double entropy = 0;
      for (const float z : logits) {
        const double p = std::exp(double(z) - shift) / whole;
        entropy -= p > 0 ? p * std::log(p) : 0;
      }
      return entropy;
    };
    const double z_visible = sum_of(row.visible_logits);
    const double z_ghosts = sum_of(row.ghost_logits);
    ASSERT_NEAR(visible.entropy_nats(), entropy_of(row.visible_logits, z_visible), kTolerance);
    ASSERT_NEAR(joint_entropy_nats(visible, ghosts, rebound),
                entropy_of(row.visible_logits, z_visible + z_ghosts) +
                    entropy_of(row.ghost_logits, z_visible + z_ghosts),
                kTolerance);

    // o_V - o_* = ρ·(o_V - o_E), against o_* summed over everything. The full run's values, which
    // in layer 0 are the arm's own.
    const std::vector<float>& of_layer = values[std::size_t(row.layer)];
    const auto weigh = [&](const std::vector<float>& logits,
                           const std::vector<std::int32_t>& positions) {
      Weighted w{0, std::vector<double>(d)};
      for (std::size_t i = 0; i < logits.size(); ++i) {
        const double weight = std::exp(double(logits[i]) - shift);
        w.sum += weight;
        const float* v = of_layer.data() + std::size_t(positions[i]) * value_floats +
                         std::size_t(row.kv_head) * d;
        for (std::size_t j = 0; j < d; ++j) w.values[j] += weight * double(v[j]);
      }
      return w;
    };
    const Weighted in_cache = weigh(row.visible_logits, row.visible_positions);
    const Weighted lost = weigh(row.ghost_logits, row.ghost_positions);
    Weighted all = in_cache;
    all.sum += lost.sum;
    for (std::size_t j = 0; j < d; ++j) all.values[j] += lost.values[j];
    const auto o_v = in_cache.output();
    const auto o_all = all.output();
    const auto o_e = lost.output();
    const std::vector<float> visible_output(o_v.begin(), o_v.end());
    const std::vector<float> ghost_output(o_e.begin(), o_e.end());
    double error = 0;
    double norm = 0;
    for (std::size_t j = 0; j < d; ++j) {
      error += (o_v[j] - o_all[j]) * (o_v[j] - o_all[j]);
      norm += o_all[j] * o_all[j];
    }
    const OutputPerturbation found = output_perturbation(visible_output, ghost_output, rebound);
    ASSERT_NEAR(found.error_norm, std::sqrt(error), kTolerance * std::sqrt(norm));
    ASSERT_NEAR(found.full_norm, std::sqrt(norm), kTolerance * std::sqrt(norm));
    // Where the engine gives outputs, they are those.
    if (row.layer != 0 || row.ghost_output.empty()) continue;
    for (std::size_t j = 0; j < d; ++j) {
      ASSERT_NEAR(row.visible_output[j], o_v[j], kTolerance * std::sqrt(norm));
      ASSERT_NEAR(row.ghost_output[j], o_e[j], kTolerance * std::sqrt(norm));
    }
  }
}

}  // namespace
}  // namespace kvscope
