// Defects of scores: formulas, parameters that have no effect, pooling, order, what rows count.
#include <algorithm>
#include <array>

#include "runner/conform/altered_policy.h"
#include "runner/conform/mutants.h"

namespace kvscope::conform {
namespace {

using Statistic = ScanRule::Statistic;

PolicySpec with_param(PolicySpec spec, const std::string& name, const std::string& value) {
  spec.params[name] = value;
  spec.written[name] = value;
  return spec;
}

// A parameter is taken for another value, whatever was written.
PolicyPtr fixed(const PolicySpec& spec, const FitRequest& request, const std::string& name,
                const std::string& value) {
  return fit_policy(with_param(spec, name, value), request);
}

PolicyPtr altered_rule(const PolicySpec& spec, const FitRequest& request,
                       const std::function<void(ScanRule&)>& change) {
  return altered(fit_policy(spec, request), with_rule(change));
}

// ---- what the cut sees ----

using See = std::function<void(const PromptLayer&, std::vector<float>& weights,
                               std::vector<float>& keys, std::vector<float>& values)>;

PolicyPtr sees(const PolicySpec& spec, const FitRequest& request, const See& change) {
  return altered(fit_policy(spec, request),
                 Defect{.cut = [change](const Policy& policy, const PromptLayer& layer) {
                   std::vector<float> weights(layer.column_weights.begin(),
                                              layer.column_weights.end());
                   // A score reads its keys before or after RoPE, never both.
                   const bool raw = layer.keys.empty();
                   const std::span<const float> given = raw ? layer.raw_keys : layer.keys;
                   std::vector<float> keys(given.begin(), given.end());
                   std::vector<float> values(layer.values.begin(), layer.values.end());
                   change(layer, weights, keys, values);
                   PromptLayer seen = layer;
                   seen.column_weights = weights;
                   (raw ? seen.raw_keys : seen.keys) = keys;
                   seen.values = values;
                   return policy.select_prompt(seen);
                 }});
}

// Query head h belongs to KV head h mod H.
PolicyPtr heads_interleaved(const PolicySpec& spec, const FitRequest& request) {
  return sees(spec, request,
              [](const PromptLayer& layer, std::vector<float>& weights, std::vector<float>&,
                 std::vector<float>&) {
                const std::vector<float> own = weights;
                const int group = layer.n_heads / layer.n_kv_heads;
                const std::ptrdiff_t n = layer.prompt_tokens;
                for (int h = 0; h < layer.n_heads && !own.empty(); ++h) {
                  const int to = h % layer.n_kv_heads * group + h / layer.n_kv_heads;
                  std::copy_n(own.begin() + h * n, n, weights.begin() + to * n);
                }
              });
}

// Each KV head's scores are those of query head 0.
PolicyPtr first_head_for_all(const PolicySpec& spec, const FitRequest& request) {
  return sees(spec, request,
              [](const PromptLayer& layer, std::vector<float>& weights, std::vector<float>&,
                 std::vector<float>&) {
                const auto n = static_cast<std::size_t>(layer.prompt_tokens);
                for (std::size_t i = n; i < weights.size(); ++i) weights[i] = weights[i % n];
              });
}

PolicyPtr keys_and_values_swapped(const PolicySpec& spec, const FitRequest& request) {
  return sees(spec, request,
              [](const PromptLayer&, std::vector<float>&, std::vector<float>& keys,
                 std::vector<float>& values) { keys.swap(values); });
}

PolicyPtr scores_negated(const PolicySpec& spec, const FitRequest& request) {
  return sees(spec, request,
              [](const PromptLayer&, std::vector<float>& weights, std::vector<float>&,
                 std::vector<float>&) {
                for (float& weight : weights) weight = -weight;
              });
}

// The longest keys stay.
PolicyPtr norms_inverted(const PolicySpec& spec, const FitRequest& request) {
  return sees(spec, request,
              [](const PromptLayer& layer, std::vector<float>&, std::vector<float>& keys,
                 std::vector<float>&) {
                const std::size_t d = layer.head_dim;
                for (std::size_t row = 0; row * d < keys.size(); ++row) {
                  float squares = 0.0F;
                  for (std::size_t j = 0; j < d; ++j)
                    squares += keys[row * d + j] * keys[row * d + j];
                  for (std::size_t j = 0; j < d; ++j) keys[row * d + j] /= squares;
                }
              });
}

// The anchor is the mean key, not the mean direction.
PolicyPtr anchor_of_lengths(const PolicySpec& spec, const FitRequest& request) {
  return sees(spec, request,
              [](const PromptLayer& layer, std::vector<float>&, std::vector<float>& keys,
                 std::vector<float>&) {
                // A long key pulls the anchor: as if it were there twice.
                const std::size_t d = layer.head_dim;
                for (std::size_t i = 0; i + d <= keys.size() && i < d; ++i) keys[i] = -keys[i];
              });
}

// ---- which rows count ----

PolicyPtr rows_wanted(const PolicySpec& spec, const FitRequest& request,
                      const std::function<void(PromptNeed&)>& change) {
  return altered(fit_policy(spec, request), Defect{.prompt_need = [change](const Policy& policy) {
                   PromptNeed need = policy.prompt_need();
                   change(need);
                   return need;
                 }});
}

PolicyPtr all_rows_for_last(const PolicySpec& spec, const FitRequest& request) {
  return rows_wanted(spec, request, [](PromptNeed& need) {
    if (need.rows == PromptNeed::Rows::kLast) need.rows = PromptNeed::Rows::kAll;
  });
}
PolicyPtr last_rows_for_all(const PolicySpec& spec, const FitRequest& request) {
  return rows_wanted(spec, request, [](PromptNeed& need) {
    if (need.rows != PromptNeed::Rows::kAll) return;
    need.rows = PromptNeed::Rows::kLast;
    need.last_rows = 1;
  });
}
PolicyPtr one_row_more(const PolicySpec& spec, const FitRequest& request) {
  return rows_wanted(spec, request, [](PromptNeed& need) { ++need.last_rows; });
}
PolicyPtr one_history_entry(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "history", "1");
}
PolicyPtr last_row_of_uses(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "rows", "1");
}

// ---- rules ----

PolicyPtr means_by_prompt(const PolicySpec& spec, const FitRequest& request) {
  return altered(
      fit_policy(spec, request), Defect{.cut = [](const Policy& policy, const PromptLayer& layer) {
        // Divided by all rows instead of those that saw the token: sums decide.
        std::vector<float> sums(layer.column_weights.begin(), layer.column_weights.end());
        const auto n = static_cast<std::size_t>(layer.prompt_tokens);
        for (std::size_t i = 0; i < sums.size(); ++i)
          sums[i] *= static_cast<float>(n - i % n) / static_cast<float>(n);
        PromptLayer seen = layer;
        seen.column_weights = sums;
        return policy.select_prompt(seen);
      }});
}
PolicyPtr no_decay(const PolicySpec& spec, const FitRequest& request) {
  return altered_rule(spec, request, [](ScanRule& rule) { rule.decay = 1.0F; });
}
PolicyPtr last_row_alone(const PolicySpec& spec, const FitRequest& request) {
  return altered_rule(spec, request, [](ScanRule& rule) {
    if (rule.statistic == Statistic::kSum) rule.statistic = Statistic::kLast;
  });
}
PolicyPtr accumulates(const PolicySpec& spec, const FitRequest& request) {
  return altered_rule(spec, request, [](ScanRule& rule) {
    if (rule.statistic == Statistic::kLast) rule.statistic = Statistic::kSum;
  });
}
PolicyPtr oldest_leaves(const PolicySpec& spec, const FitRequest& request) {
  return altered_rule(spec, request, [](ScanRule& rule) {
    rule.statistic = Statistic::kNone;
    rule.victim = ScanRule::Victim::kOldest;
  });
}
PolicyPtr lower_threshold(const PolicySpec& spec, const FitRequest& request) {
  return altered_rule(spec, request, [](ScanRule& rule) { rule.threshold *= 0.5F; });
}
PolicyPtr one_set_a_head(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "scope", "head");
}
PolicyPtr same_priorities_everywhere(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.cut =
                            [](const Policy& policy, const PromptLayer& layer) {
                              PromptLayer first = layer;
                              first.layer = 0;
                              auto heads = policy.select_prompt(first);
                              for (KeptHead& head : heads) head = heads.front();
                              return heads;
                            },
                        .state =
                            [](std::unique_ptr<PolicyState>, const Policy& policy, UnitPlace place,
                               const KeptHead& start) {
                              return policy.make_state({0, 0, place.n_layers}, start);
                            }});
}
PolicyPtr uniform_victims(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "mode", "uniform_victim");
}
PolicyPtr seed_ignored(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "seed", "0");
}

// Of equals the older stays.
PolicyPtr older_wins(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 in_state({.observe = [](PolicyState& inner, const VisibleRow& row) {
                   std::vector<float> a(row.probabilities.begin(), row.probabilities.end());
                   const std::size_t n = row.positions.size();
                   for (std::size_t i = 0; i < a.size(); ++i)
                     a[i] *= 1.0F - 1e-6F * static_cast<float>(row.positions[i % n]);
                   VisibleRow seen = row;
                   seen.probabilities = a;
                   inner.observe(seen);
                 }}));
}

// ---- parameters ----

PolicyPtr valid_edges(const PolicySpec& spec, const FitRequest& request) {
  return spec.params.at("pool") == "avg" ? fixed(spec, request, "pool_edge", "valid")
                                         : fit_policy(spec, request);
}
PolicyPtr pools_first(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "order", "pool_agg");
}
PolicyPtr averages_always(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "pool", "avg");
}
PolicyPtr mean_of_group_always(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "gqa", "mean");
}
PolicyPtr unpooled(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "kernel", "1");
}
PolicyPtr no_variance(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "gamma", "0");
}
PolicyPtr one_victim(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "drop", "1");
}
PolicyPtr no_covariance(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "covariance", "false");
}
PolicyPtr no_value_norm(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "value_norm", "false");
}
PolicyPtr no_sinks(const PolicySpec& spec, const FitRequest& request) {
  return fixed(spec, request, "n_sink", "0");
}
PolicyPtr absolute_positions(const PolicySpec& spec, const FitRequest& request) {
  PolicySpec absolute = spec;
  absolute.positions = PositionMode::kAbsolute;
  return fit_policy(absolute, request);
}

// Kept in order of score.
PolicyPtr order_of_scores(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.after_cut = [](std::vector<KeptHead>& heads, const PromptLayer&) {
                   for (KeptHead& head : heads)
                     std::reverse(head.positions.begin(), head.positions.end());
                 }});
}

// Index n - recent is neither recent nor a candidate: it leaves whatever it weighs.
PolicyPtr gap_before_recent(const PolicySpec& spec, const FitRequest& request) {
  return altered(
      fit_policy(spec, request),
      Defect{.state = [](std::unique_ptr<PolicyState> own, const Policy& policy, UnitPlace,
                         const KeptHead&) {
        const int recent = policy.scan_rule() ? policy.scan_rule()->recent : 0;
        return altered(
            std::move(own),
            StateDefect{.select = [recent](const PolicyState& inner, const Slots& slots) {
              auto keep = inner.select(slots);
              const std::size_t n = slots.positions.size();
              if (keep.size() + 1 != n) return keep;
              std::vector<std::int32_t> by_position(slots.positions.begin(), slots.positions.end());
              std::sort(by_position.begin(), by_position.end());
              if (static_cast<int>(n) <= recent) return keep;
              const std::int32_t victim = by_position[n - 1 - static_cast<std::size_t>(recent)];
              keep.clear();
              for (std::size_t i = 0; i < n; ++i) {
                if (slots.positions[i] != victim) keep.push_back(static_cast<std::int32_t>(i));
              }
              return keep;
            }});
      }});
}

PolicyPtr one_page_more(const PolicySpec& spec, const FitRequest& request) {
  FitRequest more = request;
  if (more.budget.tokens) *more.budget.tokens += 2;
  return fit_policy(spec, more);
}

constexpr std::array kTable = {
    Mutant{"query head h reads KV head h mod H", "policies.md 1.1", "h2o", heads_interleaved},
    Mutant{"query head h reads KV head h mod H (window scores)", "policies.md 1.5", "snapkv",
           heads_interleaved},
    Mutant{"query head 0 decides for all heads", "policies.md 2.6", "h2o", first_head_for_all},
    Mutant{"query head 0 decides for all heads (window scores)", "Zefan-Cai/KVCache-Factory#49",
           "snapkv", first_head_for_all},
    Mutant{"keys and values are swapped in the ratio", "policies.md 2.16", "paged_eviction",
           keys_and_values_swapped},
    Mutant{"the least attended tokens stay", "policies.md 2.7 (CC)", "h2o", scores_negated},
    Mutant{"the longest keys stay", "policies.md 2.13", "knorm", norms_inverted},
    Mutant{"one key points the other way in the anchor", "policies.md 2.14", "keydiff",
           anchor_of_lengths},
    Mutant{"all prompt rows decide instead of the last", "policies.md 2.8", "tova",
           all_rows_for_last},
    Mutant{"the last prompt row decides instead of all", "policies.md 2.6", "h2o",
           last_rows_for_all},
    Mutant{"one row too many scores the prefix", "policies.md 2.9", "snapkv", one_row_more},
    Mutant{"the prompt is a single entry of the history", "policies.md 2.7 (CC)", "scissorhands",
           one_history_entry},
    Mutant{"only the last prompt row counts as a use", "policies.md 2.4", "lru", last_row_of_uses},
    Mutant{"means are taken over all rows of the prompt", "policies.md 2.6", "h2o",
           means_by_prompt},
    Mutant{"sums do not decay", "policies.md 2.6", "h2o", no_decay},
    Mutant{"the last row replaces the sum", "policies.md 2.6", "h2o", last_row_alone},
    Mutant{"rows add up where the last one decides", "policies.md 2.8", "tova", accumulates},
    Mutant{"the oldest token leaves, whatever its score", "policies.md 2.8", "tova", oldest_leaves},
    Mutant{"half of 1/n counts as a use", "policies.md 2.4", "lru", lower_threshold},
    Mutant{"each KV head has its own set where the layer has one", "policies.md 2.8", "tova",
           one_set_a_head},
    Mutant{"all layers and heads draw the same sample", "policies.md 2.5", "random",
           same_priorities_everywhere},
    Mutant{"a random resident leaves where a sample of all tokens is meant", "policies.md 2.5",
           "random", uniform_victims},
    Mutant{"the seed has no effect", "policies.md 2.5", "random", seed_ignored},
    Mutant{"of equal scores the older token stays", "policies.md 1.4", "tova", older_wins},
    Mutant{"averages leave out the padding", "policies.md 2.9", "snapkv", valid_edges},
    Mutant{"heads are pooled before they are reduced", "policies.md 1.5", "snapkv", pools_first},
    Mutant{"pool=max has no effect", "policies.md 2.9", "snapkv", averages_always},
    Mutant{"gqa=max has no effect", "policies.md 1.5", "snapkv", mean_of_group_always},
    Mutant{"neighbours are not pooled", "policies.md 2.9", "snapkv", unpooled},
    Mutant{"neighbours are not pooled (variances)", "policies.md 2.12", "cake", unpooled},
    Mutant{"the variance has no weight", "policies.md 2.12", "cake", no_variance},
    Mutant{"one victim a step where several leave at once", "policies.md 2.7 (CC)", "scissorhands",
           one_victim},
    Mutant{"the covariance is left out", "policies.md 2.15", "expected_attention", no_covariance},
    Mutant{"value norms are left out", "policies.md 2.15", "expected_attention", no_value_norm},
    Mutant{"sinks are scored like others", "policies.md 2.15", "expected_attention", no_sinks},
    Mutant{"keys keep their absolute positions", "NVIDIA/kvpress#158, #16, #31", "streaming_llm",
           absolute_positions},
    Mutant{"kept tokens are stored in order of score", "policies.md 2.9", "snapkv",
           order_of_scores},
    Mutant{"the token before the recent window is invisible", "policies.md 2.6 (utils_hh)", "h2o",
           gap_before_recent},
    Mutant{"a page more than the budget is read", "policies.md 3", "quest", one_page_more},
};

}  // namespace

std::span<const Mutant> score_mutants() { return kTable; }

}  // namespace kvscope::conform
