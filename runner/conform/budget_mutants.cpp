// Defects of budgets: ratios, windows, sinks, layers and heads.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "runner/conform/altered_policy.h"
#include "runner/conform/mutants.h"
#include "runner/policies/params.h"

namespace kvscope::conform {
namespace {

using Slot = std::int32_t;

PolicySpec with_param(PolicySpec spec, const std::string& name, const std::string& value) {
  spec.params[name] = value;
  spec.written[name] = value;
  return spec;
}

// A parameter that follows the budget, changed by some.
PolicyPtr shifted(const PolicySpec& spec, const FitRequest& request, const std::string& name,
                  int by, int least, int most) {
  const PolicyPtr own = fit_policy(spec, request);
  const int value = std::stoi(own->fitted_params().at(name)) + by;
  if (own->never_evicts() || value < least || value > most) return own;
  return fit_policy(with_param(spec, name, std::to_string(value)), request);
}

PolicyPtr with_budget(const PolicySpec& spec, FitRequest request, int budget) {
  if (never_evicts(spec, request)) return fit_policy(spec, request);
  request.budget = {.permille = std::nullopt, .tokens = std::max(1, budget)};
  return fit_policy(spec, request);
}

int budget_of(const FitRequest& request) { return request.budget.tokens_for(request.length); }

PolicyPtr recent_one_short(const PolicySpec& spec, const FitRequest& request) {
  return shifted(spec, request, "recent", -1, 0, budget_of(request));
}
PolicyPtr recent_one_long(const PolicySpec& spec, const FitRequest& request) {
  return shifted(spec, request, "recent", 1, 0, budget_of(request));
}
PolicyPtr window_one_short(const PolicySpec& spec, const FitRequest& request) {
  return shifted(spec, request, "window", -1, 1, budget_of(request));
}
PolicyPtr window_one_long(const PolicySpec& spec, const FitRequest& request) {
  return shifted(spec, request, "window", 1, 1, std::min(budget_of(request), request.length - 1));
}
PolicyPtr sinks_one_short(const PolicySpec& spec, const FitRequest& request) {
  return shifted(spec, request, "sinks", -1, 0, budget_of(request) - 1);
}
PolicyPtr leading_sinks(const PolicySpec& spec, const FitRequest& request) {
  const int sinks = std::max(0, budget_of(request) - 2);
  return fit_policy(with_param(spec, "sinks", std::to_string(sinks)), request);
}

PolicyPtr one_more(const PolicySpec& spec, const FitRequest& request) {
  return with_budget(spec, request, budget_of(request) + 1);
}
PolicyPtr one_fewer(const PolicySpec& spec, const FitRequest& request) {
  return with_budget(spec, request, budget_of(request) - 1);
}
PolicyPtr ratio_twice(const PolicySpec& spec, const FitRequest& request) {
  return with_budget(spec, request, budget_of(request) * budget_of(request) / request.length);
}
PolicyPtr ratio_removed(const PolicySpec& spec, const FitRequest& request) {
  return with_budget(spec, request, request.length - budget_of(request));
}
PolicyPtr window_on_top(const PolicySpec& spec, const FitRequest& request) {
  const PolicyPtr own = fit_policy(spec, request);
  const int window = std::stoi(own->fitted_params().at("window"));
  return with_budget(spec, request, budget_of(request) + window);
}
PolicyPtr cut_above_window(const PolicySpec& spec, const FitRequest& request) {
  const PolicyPtr own = fit_policy(spec, request);
  const int window = std::stoi(own->fitted_params().at("window"));
  return altered(own, Defect{.cut = [window](const Policy& policy, const PromptLayer& layer) {
                   auto heads = policy.select_prompt(layer);
                   if (layer.prompt_tokens > policy.budget_tokens() + window) return heads;
                   for (KeptHead& head : heads) {
                     head.positions.clear();
                     for (Slot i = 0; i < layer.prompt_tokens; ++i) head.positions.push_back(i);
                   }
                   return heads;
                 }});
}

PolicyPtr grows_in_decode(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 in_state({.select = [](const PolicyState&, const Slots& slots) {
                   std::vector<Slot> all(slots.positions.size());
                   for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Slot>(i);
                   return all;
                 }}));
}

// Every selection may keep as much again.
PolicyPtr budget_per_chunk(const PolicySpec& spec, const FitRequest& request) {
  const int budget = budget_of(request);
  return altered(fit_policy(spec, request),
                 Defect{.state = [budget](std::unique_ptr<PolicyState> own, const Policy&,
                                          UnitPlace, const KeptHead&) {
                   auto chunks = std::make_shared<std::size_t>(1);
                   return altered(
                       std::move(own),
                       StateDefect{.select =
                                       [=](const PolicyState& inner, const Slots& slots) {
                                         auto keep = inner.select(slots);
                                         const std::size_t n = slots.positions.size();
                                         const std::size_t most = *chunks * budget;
                                         for (std::size_t i = n; i-- > 0 && keep.size() < most;) {
                                           const auto slot = static_cast<Slot>(i);
                                           const auto at =
                                               std::lower_bound(keep.begin(), keep.end(), slot);
                                           if (at == keep.end() || *at != slot)
                                             keep.insert(at, slot);
                                         }
                                         return keep;
                                       },
                                   .compact =
                                       [=](PolicyState& inner, std::span<const Slot> moved) {
                                         ++*chunks;
                                         inner.compact(moved);
                                       }});
                 }});
}

// The victim leaves and one more with it.
PolicyPtr two_leave(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 in_state({.select = [](const PolicyState& inner, const Slots& slots) {
                   auto keep = inner.select(slots);
                   if (keep.size() > 1 && keep.size() < slots.positions.size())
                     keep.erase(keep.begin());
                   return keep;
                 }}));
}

PolicyPtr newest_unprotected(const PolicySpec& spec, const FitRequest& request) {
  PolicySpec free = with_param(spec, "protect_last", "false");
  free.protect_last = false;
  return fit_policy(free, request);
}

// ---- layers ----

PolicyPtr pyramid_upside_down(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.unit_budget = [](const Policy& policy, UnitPlace place) {
                   place.layer = place.n_layers - 1 - place.layer;
                   return policy.unit_budget(place);
                 }});
}

// Integer steps floored: the total overshoots.
PolicyPtr pyramid_floored(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.unit_budget = [](const Policy& policy, UnitPlace place) {
                   if (place.n_layers < 2) return policy.unit_budget(place);
                   const int most = policy.unit_budget({0, 0, place.n_layers});
                   const int least = policy.unit_budget({place.n_layers - 1, 0, place.n_layers});
                   const int step = (most - least) / (place.n_layers - 1);
                   return most - step * place.layer;
                 }});
}

PolicyPtr pyramid_uniform(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.unit_budget = [](const Policy& policy, UnitPlace) {
                   return policy.budget_tokens();
                 }});
}

// ---- CAKE's cascade ----

class HalfCascade final : public PromptCascade {
 public:
  enum class Fault { kNoRecuts, kReturns };
  HalfCascade(std::unique_ptr<PromptCascade> inner, Fault fault)
      : inner_(std::move(inner)), fault_(fault) {}
  std::vector<KeptHead> cut(const PromptLayer& layer) override { return inner_->cut(layer); }
  std::vector<Recut> take_recuts() override {
    auto recuts = inner_->take_recuts();
    if (fault_ == Fault::kNoRecuts) return {};
    for (Recut& recut : recuts) {
      for (KeptHead& head : recut.heads) {
        // Something that may have left before.
        for (Slot i = 0; i < head.positions.front(); ++i) {
          head.positions.insert(head.positions.begin(), i);
          break;
        }
      }
    }
    return recuts;
  }

 private:
  std::unique_ptr<PromptCascade> inner_;
  Fault fault_;
};

PolicyPtr no_recuts(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.cascade = [](const Policy& policy) -> std::unique_ptr<PromptCascade> {
                   auto own = policy.make_cascade();
                   if (!own) return nullptr;
                   return std::make_unique<HalfCascade>(std::move(own),
                                                        HalfCascade::Fault::kNoRecuts);
                 }});
}

PolicyPtr recuts_return(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.cascade = [](const Policy& policy) -> std::unique_ptr<PromptCascade> {
                   auto own = policy.make_cascade();
                   if (!own) return nullptr;
                   return std::make_unique<HalfCascade>(std::move(own),
                                                        HalfCascade::Fault::kReturns);
                 }});
}

// A flag in the shared policy says that the layers have been cut again, and nothing resets it.
PolicyPtr flag_across_requests(const PolicySpec& spec, const FitRequest& request) {
  auto done = std::make_shared<std::atomic<bool>>(false);
  return altered(fit_policy(spec, request),
                 Defect{.cascade = [done](const Policy& policy) -> std::unique_ptr<PromptCascade> {
                   auto own = policy.make_cascade();
                   if (!own || !done->exchange(true)) return own;
                   return std::make_unique<HalfCascade>(std::move(own),
                                                        HalfCascade::Fault::kNoRecuts);
                 }});
}

// ---- Ada-KV ----

// Official: counts of global winners mixed with the floor and rounded half to even.
PolicyPtr adakv_rounded(const PolicySpec& spec, const FitRequest& request) {
  return altered(fit_policy(spec, request),
                 Defect{.after_cut = [](std::vector<KeptHead>& heads, const PromptLayer& layer) {
                   if (heads.size() < 2) return;
                   // One head loses a token that no other gets.
                   auto most = std::max_element(heads.begin(), heads.end(),
                                                [](const KeptHead& a, const KeptHead& b) {
                                                  return a.positions.size() < b.positions.size();
                                                });
                   const bool ragged =
                       most->budget_tokens > 0 &&
                       static_cast<int>(most->positions.size()) < layer.prompt_tokens;
                   if (ragged && most->positions.size() > 1) {
                     most->positions.erase(most->positions.begin());
                     if (!most->statistic.empty()) most->statistic.erase(most->statistic.begin());
                     if (!most->count.empty()) most->count.erase(most->count.begin());
                   }
                 }});
}

PolicyPtr adakv_fixed_floor(const PolicySpec& spec, const FitRequest& request) {
  PolicySpec fixed = spec;
  for (PartSpec& part : fixed.parts) {
    if (part.name == "adakv") part.params["alpha"] = "0.2";
  }
  return fit_policy(fixed, request);
}

constexpr std::array kTable = {
    Mutant{"the recent window is one token short", "policies.md 2.6 (utils_hh)", "h2o",
           recent_one_short},
    Mutant{"the recent window is one token long", "policies.md 2.6", "h2o", recent_one_long},
    Mutant{"the prompt's window is one row short", "policies.md 2.9", "snapkv", window_one_short},
    Mutant{"the prompt's window is one row long", "policies.md 2.9", "snapkv", window_one_long},
    Mutant{"the window of variances is one row long", "policies.md 2.12", "cake", window_one_long},
    Mutant{"one sink too few", "policies.md 2.3", "streaming_llm", sinks_one_short},
    Mutant{"all but the newest two tokens of the budget are sinks", "Zefan-Cai/KVCache-Factory#16",
           "streaming_llm", leading_sinks},
    Mutant{"one token more than the budget", "policies.md 1.3", "sliding_window", one_more},
    Mutant{"one token fewer than the budget", "policies.md 1.3", "tova", one_fewer},
    Mutant{"the ratio is multiplied twice", "VeloxQuant-MLX#84", "h2o", ratio_twice},
    Mutant{"the ratio kept is taken for the ratio removed", "policies.md 1.3 (KVP)", "knorm",
           ratio_removed},
    Mutant{"the window comes on top of the budget", "policies.md 2.10 (KVF)", "snapkv",
           window_on_top},
    Mutant{"nothing is cut up to budget + window", "policies.md 2.12", "snapkv", cut_above_window},
    Mutant{"the cache grows in decoding though the rule says that it does not",
           "FasterDecoding/SnapKV#23", "h2o", grows_in_decode},
    Mutant{"each chunk adds a budget", "VeloxQuant-MLX#84, #91", "streaming_llm", budget_per_chunk},
    Mutant{"one more token leaves with the victim", "policies.md 9.2", "lru", two_leave},
    Mutant{"the newest token may leave", "policies.md 1.4 (TOVA)", "tova", newest_unprotected},
    Mutant{"the newest token may leave (norms)", "policies.md 1.4 (KVP)", "knorm",
           newest_unprotected},
    Mutant{"later layers get more", "policies.md 2.7, 2.10", "snapkv", pyramid_upside_down},
    Mutant{"steps of the pyramid are floored and the total overshoots",
           "policies.md 2.10; Zefan-Cai/KVCache-Factory#36", "snapkv", pyramid_floored},
    Mutant{"a pyramid that does not fit is uniform", "Zefan-Cai/KVCache-Factory#6", "snapkv",
           pyramid_uniform},
    Mutant{"earlier layers are not cut again", "policies.md 2.12", "cake", no_recuts},
    Mutant{"a layer that is cut again gets tokens back", "policies.md 2.12", "cake", recuts_return},
    Mutant{"a flag of the cascade outlives the request", "policies.md 2.12; 9.23", "cake",
           flag_across_requests},
    Mutant{"rounding loses a token of the heads' total", "policies.md 2.11 (ADA)", "snapkv",
           adakv_rounded},
    Mutant{"the floor of the heads' budgets is always 0.2", "policies.md 2.11 (KVF)", "snapkv",
           adakv_fixed_floor},
};

}  // namespace

std::span<const Mutant> budget_mutants() { return kTable; }

}  // namespace kvscope::conform
