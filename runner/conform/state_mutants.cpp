// Defects of states: counters, slots, copies, what is protected.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "runner/conform/altered_policy.h"
#include "runner/conform/mutants.h"

namespace kvscope::conform {
namespace {

using Slot = std::int32_t;
using Keep = std::vector<Slot>;

PolicyPtr plant(const PolicySpec& spec, const FitRequest& request, const Defect& defect) {
  return altered(fit_policy(spec, request), defect);
}
PolicyPtr plant(const PolicySpec& spec, const FitRequest& request, const StateDefect& defect) {
  return plant(spec, request, in_state(defect));
}

Keep first_slots(std::size_t n) {
  Keep all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Counters stay with the slot, whoever moved into it.
PolicyPtr stale_counters(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.compact = [](PolicyState& inner, std::span<const Slot> moved) {
                 inner.compact(first_slots(moved.size()));
               }});
}

// The map is read as "old slot i went to new slot map[i]".
PolicyPtr inverse_map(const PolicySpec& spec, const FitRequest& request) {
  return plant(
      spec, request, StateDefect{.compact = [](PolicyState& inner, std::span<const Slot> moved) {
        Keep inverse(moved.size());
        for (std::size_t i = 0; i < moved.size(); ++i)
          inverse[static_cast<std::size_t>(moved[i]) % moved.size()] = static_cast<Slot>(i);
        inner.compact(inverse);
      }});
}

// States of the unit's kept tokens in ascending order, though the cache moved the last into holes.
PolicyPtr order_kept(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.compact = [](PolicyState& inner, std::span<const Slot> moved) {
                 Keep ascending(moved.begin(), moved.end());
                 std::sort(ascending.begin(), ascending.end());
                 inner.compact(ascending);
               }});
}

std::vector<Slot> slot_numbers(std::span<const Slot> positions) {
  return first_slots(positions.size());
}

PolicyPtr position_from_slot(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.observe =
                               [](PolicyState& inner, const VisibleRow& row) {
                                 const auto ranks = slot_numbers(row.positions);
                                 VisibleRow seen = row;
                                 seen.positions = ranks;
                                 inner.observe(seen);
                               },
                           .select =
                               [](const PolicyState& inner, const Slots& slots) {
                                 const auto ranks = slot_numbers(slots.positions);
                                 return inner.select({ranks, slots.reader});
                               }});
}

PolicyPtr cache_order_pooling(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.select = [](const PolicyState& inner, const Slots& slots) {
                 return inner.select({slot_numbers(slots.positions), slots.reader});
               }});
}

// Sinks are the first tokens of what arrived since the last selection.
PolicyPtr sinks_of_the_chunk(const PolicySpec& spec, const FitRequest& request) {
  return plant(
      spec, request,
      Defect{.state = [](std::unique_ptr<PolicyState> own, const Policy& policy, UnitPlace,
                         const KeptHead&) {
        const auto rule = policy.streaming_rule();
        const int sinks = rule ? rule->sinks : 0;
        const int budget = rule ? rule->budget_tokens : 0;
        auto resident = std::make_shared<std::size_t>(0);
        return altered(
            std::move(own),
            StateDefect{.select =
                            [=](const PolicyState& inner, const Slots& slots) {
                              const std::size_t n = slots.positions.size();
                              Keep keep;
                              if (n <= static_cast<std::size_t>(budget)) return inner.select(slots);
                              for (std::size_t i = *resident; i < n; ++i) {
                                if (static_cast<int>(i - *resident) < sinks)
                                  keep.push_back(static_cast<Slot>(i));
                              }
                              for (std::size_t i = n; i-- > 0;) {
                                if (static_cast<int>(keep.size()) >= budget) break;
                                const auto slot = static_cast<Slot>(i);
                                if (std::find(keep.begin(), keep.end(), slot) == keep.end())
                                  keep.push_back(slot);
                              }
                              std::sort(keep.begin(), keep.end());
                              return keep;
                            },
                        .compact =
                            [=](PolicyState& inner, std::span<const Slot> moved) {
                              *resident = moved.size();
                              inner.compact(moved);
                            }});
      }});
}

PolicyPtr frozen_after_prompt(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 std::vector<float> nothing(row.probabilities.size(), 0.0F);
                 VisibleRow seen = row;
                 seen.probabilities = nothing;
                 inner.observe(seen);
               }});
}

PolicyPtr first_query_head(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 VisibleRow seen = row;
                 seen.n_query_heads = 1;
                 seen.probabilities = row.probabilities.first(row.positions.size());
                 inner.observe(seen);
               }});
}

PolicyPtr max_of_heads(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 const std::size_t n = row.positions.size();
                 std::vector<float> best(n, 0.0F);
                 for (std::size_t i = 0; i < row.probabilities.size(); ++i)
                   best[i % n] = std::max(best[i % n], row.probabilities[i]);
                 VisibleRow seen = row;
                 seen.n_query_heads = 1;
                 seen.probabilities = best;
                 inner.observe(seen);
               }});
}

// The newest token's own row is not added to it.
PolicyPtr newest_reset(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 const std::size_t n = row.positions.size();
                 std::vector<float> a(row.probabilities.begin(), row.probabilities.end());
                 for (std::size_t h = 1; h * n <= a.size(); ++h) a[h * n - 1] = 0.0F;
                 VisibleRow seen = row;
                 seen.probabilities = a;
                 inner.observe(seen);
               }});
}

// Probabilities in float16: 10 bits of mantissa.
PolicyPtr half_scores(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 std::vector<float> a(row.probabilities.begin(), row.probabilities.end());
                 for (float& x : a) x = std::round(x * 256.0F) / 256.0F;
                 VisibleRow seen = row;
                 seen.probabilities = a;
                 inner.observe(seen);
               }});
}

// "≥ 1/n" without tolerance: what is exactly at the bar flips.
PolicyPtr bar_without_tolerance(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 std::vector<float> a(row.probabilities.begin(), row.probabilities.end());
                 for (float& x : a) x *= 1.0F - 4e-6F;
                 VisibleRow seen = row;
                 seen.probabilities = a;
                 inner.observe(seen);
               }});
}

// Copies count their rows together: one that is behind loses what it sees.
class SharedRows final : public PolicyState {
 public:
  SharedRows(std::unique_ptr<PolicyState> inner, std::shared_ptr<int> all, int own)
      : inner_(std::move(inner)), all_(std::move(all)), own_(own) {}
  std::unique_ptr<PolicyState> clone() const override {
    return std::make_unique<SharedRows>(inner_->clone(), all_, own_);
  }
  void observe(const VisibleRow& row) override {
    const std::vector<float> nothing(row.probabilities.size(), 0.0F);
    VisibleRow seen = row;
    if (++*all_ != ++own_) seen.probabilities = nothing;
    inner_->observe(seen);
  }
  std::vector<Slot> select(const Slots& slots) const override { return inner_->select(slots); }
  void compact(std::span<const Slot> moved) override { inner_->compact(moved); }
  std::uint64_t nan_scores() const override { return inner_->nan_scores(); }

 private:
  std::unique_ptr<PolicyState> inner_;
  std::shared_ptr<int> all_;
  int own_;
};

PolicyPtr shared_by_copies(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               Defect{.state = [](std::unique_ptr<PolicyState> own, const Policy&, UnitPlace,
                                  const KeptHead&) -> std::unique_ptr<PolicyState> {
                 return std::make_unique<SharedRows>(std::move(own), std::make_shared<int>(0), 0);
               }});
}

// Attention of an earlier request still counts in the next.
PolicyPtr state_across_requests(const PolicySpec& spec, const FitRequest& request) {
  auto earlier = std::make_shared<std::vector<float>>();
  return plant(spec, request,
               Defect{.cut = [earlier](const Policy& policy, const PromptLayer& layer) {
                 std::vector<float> sums(layer.column_weights.begin(), layer.column_weights.end());
                 if (earlier->size() == sums.size()) {
                   for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += (*earlier)[i];
                 }
                 earlier->assign(layer.column_weights.begin(), layer.column_weights.end());
                 PromptLayer seen = layer;
                 seen.column_weights = sums;
                 return policy.select_prompt(seen);
               }});
}

// One stream of random numbers for all requests.
PolicyPtr unseeded(const PolicySpec& spec, const FitRequest& request) {
  auto calls = std::make_shared<std::uint64_t>(0);
  return plant(spec, request,
               StateDefect{.select = [calls](const PolicyState& inner, const Slots& slots) {
                 Keep keep = inner.select(slots);
                 const std::size_t n = slots.positions.size();
                 if (keep.size() == n || keep.size() < 2) return keep;
                 // Another victim each time.
                 const auto victim = static_cast<Slot>((*calls)++ % (n - 1));
                 Keep other;
                 for (std::size_t i = 0; i < n && other.size() < keep.size(); ++i) {
                   if (static_cast<Slot>(i) != victim) other.push_back(static_cast<Slot>(i));
                 }
                 other.back() = static_cast<Slot>(n) - 1;
                 return other;
               }});
}

PolicyPtr nan_not_counted(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.nan_scores = [](const PolicyState&) { return std::uint64_t{0}; }});
}

// NaN compares as the largest.
PolicyPtr nan_kept(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request, StateDefect{.observe = [](PolicyState& inner, const VisibleRow& row) {
                 std::vector<float> a(row.probabilities.begin(), row.probabilities.end());
                 for (float& x : a) x = x != x ? 1.0F : x;
                 VisibleRow seen = row;
                 seen.probabilities = a;
                 inner.observe(seen);
               }});
}

PolicyPtr duplicates(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.select = [](const PolicyState& inner, const Slots& slots) {
                 Keep keep = inner.select(slots);
                 if (keep.size() > 1 && keep.size() < slots.positions.size()) keep[0] = keep[1];
                 return keep;
               }});
}

PolicyPtr stale_pages(const PolicySpec& spec, const FitRequest& request) {
  return stale_counters(spec, request);
}

// Single tokens leave, and pages never shrink.
PolicyPtr page_in_part(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.select = [](const PolicyState& inner, const Slots& slots) {
                 Keep keep = inner.select(slots);
                 const std::size_t n = slots.positions.size();
                 if (keep.size() == n) return keep;
                 // One token of the page stays.
                 for (Slot slot = 0; slot < static_cast<Slot>(n); ++slot) {
                   if (std::binary_search(keep.begin(), keep.end(), slot)) continue;
                   keep.insert(std::lower_bound(keep.begin(), keep.end(), slot), slot);
                   break;
                 }
                 return keep;
               }});
}

PolicyPtr newest_page_leaves(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               StateDefect{.select = [](const PolicyState& inner, const Slots& slots) {
                 Keep keep = inner.select(slots);
                 const std::size_t left = slots.positions.size() - keep.size();
                 if (left == 0) return keep;
                 return first_slots(slots.positions.size() - left);
               }});
}

// The cut's statistic goes on in a rule that has nothing to do with it.
PolicyPtr foreign_statistic(const PolicySpec& spec, const FitRequest& request) {
  return plant(spec, request,
               Defect{.after_cut = [](std::vector<KeptHead>& heads, const PromptLayer& layer) {
                 const std::size_t n = layer.prompt_tokens;
                 if (layer.column_weights.empty()) return;
                 for (KeptHead& head : heads) {
                   for (std::size_t i = 0; i < head.statistic.size(); ++i)
                     head.statistic[i] = layer.column_weights[head.positions[i] % n];
                 }
               }});
}

constexpr std::array kTable = {
    Mutant{"counters stay with the slot when another token moves into it (sums)",
           "policies.md 1.9; VeloxQuant-MLX#137", "h2o", stale_counters},
    Mutant{"counters stay with the slot when another token moves into it (last use)",
           "policies.md 1.9", "lru", stale_counters},
    Mutant{"counters stay with the slot when another token moves into it (low counts)",
           "policies.md 1.9", "scissorhands", stale_counters},
    Mutant{"norms stay with the slot when another token moves into it", "policies.md 1.9", "knorm",
           stale_counters},
    Mutant{"page scores stay with the slot when another token moves into it", "policies.md 1.9",
           "paged_eviction", stale_pages},
    Mutant{"the compaction map is read the other way round", "policies.md 1.9", "h2o", inverse_map},
    Mutant{"state is compacted in order though the cache moved the last slot into the hole",
           "policies.md 1.7", "h2o", order_kept},
    Mutant{"low counts are compacted in order though the cache is not", "policies.md 1.7",
           "scissorhands", order_kept},
    Mutant{"position taken from the slot number", "huggingface/transformers#35350, #33691",
           "sliding_window", position_from_slot},
    Mutant{"position taken from the slot number, sinks included", "VeloxQuant-MLX#171, #175",
           "streaming_llm", position_from_slot},
    Mutant{"last use taken from the number of slots", "awslabs/keys_values#140", "lru",
           position_from_slot},
    Mutant{"sample by slot number", "policies.md 1.6", "random", position_from_slot},
    Mutant{"neighbours in the cache are pooled, not neighbours in position", "policies.md 2.12",
           "cake", cache_order_pooling},
    Mutant{"sinks are the first tokens of each chunk", "VeloxQuant-MLX#84, #91", "streaming_llm",
           sinks_of_the_chunk},
    Mutant{"attention of decode rows is not observed", "policies.md 2.6 (KVF)", "h2o",
           frozen_after_prompt},
    Mutant{"attention of decode rows is not observed (last row)", "policies.md 2.8", "tova",
           frozen_after_prompt},
    Mutant{"only the group's first query head is looked at", "policies.md 1.5", "h2o",
           first_query_head},
    Mutant{"only the first query head of the layer is looked at", "policies.md 2.8", "tova",
           first_query_head},
    Mutant{"the maximum over heads instead of the mean", "policies.md 1.5", "h2o", max_of_heads},
    Mutant{"the maximum over heads instead of the mean (last row)", "policies.md 2.8", "tova",
           max_of_heads},
    Mutant{"the newest token's own row is reset to 0", "policies.md 2.6 (flexgen)", "h2o",
           newest_reset},
    Mutant{"sums of half-precision probabilities", "policies.md 1.8", "h2o", half_scores},
    Mutant{"\"used\" is compared with 1/n without tolerance", "policies.md 1.4", "lru",
           bar_without_tolerance},
    Mutant{"\"low\" is compared with 1/n without tolerance", "policies.md 1.4", "scissorhands",
           bar_without_tolerance},
    Mutant{"a copied state shares its counters with its origin", "policies.md 9.23", "h2o",
           shared_by_copies},
    Mutant{"a copied state shares its ring with its origin", "policies.md 9.23", "scissorhands",
           shared_by_copies},
    Mutant{"sums go on from the request before", "policies.md 9.23; FMInference/H2O batch > 1",
           "h2o", state_across_requests},
    Mutant{"scores go on from the request before", "policies.md 9.23", "snapkv",
           state_across_requests},
    Mutant{"random numbers depend on how often they were asked for", "policies.md 9.24", "random",
           unseeded},
    Mutant{"NaN attention is not counted", "policies.md 1.4", "h2o", nan_not_counted},
    Mutant{"NaN compares as the largest score", "policies.md 1.4", "tova", nan_kept},
    Mutant{"a slot is kept twice", "policies.md 9.2", "sliding_window", duplicates},
    Mutant{"a page leaves but for one token", "policies.md 9.17", "paged_eviction", page_in_part},
    Mutant{"the newest page leaves", "policies.md 2.16", "paged_eviction", newest_page_leaves},
    Mutant{"the cut's scores start the rule that takes over", "policies.md 2.9", "h2o",
           foreign_statistic},
};

}  // namespace

std::span<const Mutant> state_mutants() { return kTable; }

}  // namespace kvscope::conform
