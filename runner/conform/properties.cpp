#include "runner/conform/properties.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <thread>

#include "runner/conform/naive_rule.h"

namespace kvscope::conform {
namespace {

bool always(const Subject&) { return true; }
bool evicts(const Subject& subject) { return subject.traits.evicts; }

bool shares_budget(const Subject& subject) {
  return subject.traits.needs_layers || subject.traits.ragged;
}

bool is_paged(const Policy& policy) { return granularity_of(policy).page_tokens > 1; }

// ---- item 1 ----

std::string keeps_everything(const Outcome& outcome, const Situation& s) {
  if (!outcome.fault.empty()) return outcome.fault;
  for (const Positions& kept : outcome.sets) {
    if (kept.empty() || kept.back() != static_cast<std::int32_t>(kept.size()) - 1)
      return "dropped something: " + text_of(kept);
  }
  const auto n = static_cast<std::size_t>(s.c.n_tokens);
  return outcome.sets.back().size() == n ? "" : "ends with " + text_of(outcome.sets.back());
}

std::string keeps_what_fits(const Situation& s) {
  RandomCase c = s.c;
  c.budget_tokens = c.n_tokens;
  const Situation roomy{s.subject, c, s.in_stream};
  return keeps_everything(run(roomy.policy(), roomy), roomy);
}

std::string full_ratio_never_evicts(const Situation& s) {
  FitRequest request = s.request();
  request.budget = {.permille = 1000, .tokens = std::nullopt};
  const PolicyPtr policy = s.subject.make(request);
  if (!policy->never_evicts()) return "a ratio of 1000 permille is not said to keep everything";
  if (policy->prompt_need() != PromptNeed{}) return "asks for attention that it cannot use";
  return keeps_everything(run(policy, s), s);
}

// ---- item 2 ----

// What one unit may hold after a selection at which `visible` tokens were there.
struct Bounds {
  int most = 0;
  int least = 0;
};

Bounds bounds_of(const Policy& policy, int budget, int visible, bool cut) {
  const Granularity granularity = granularity_of(policy);
  Bounds bounds{budget, std::min(budget, visible)};
  if (granularity.page_tokens > 1 && !cut) {
    // The newest page and those of sinks never leave, and pages leave only whole and when the
    // newest has become full.
    const int page = granularity.page_tokens;
    bounds.most = std::max(budget, page * (1 + granularity.sink_pages)) + page - 1;
    bounds.least = std::max(1, bounds.least - (page - 1));
  } else if (visible > budget) {
    bounds.least = std::min(budget, std::max(1, visible - granularity.drop_tokens));
  }
  return bounds;
}

std::string check_unit(const Replay& replay, const Policy& policy, const Situation& s, int h,
                       int layer, int newest, bool cut) {
  const Positions kept = replay.kept(h, layer);
  const Positions visible = replay.visible(h, layer);
  const auto n = static_cast<int>(kept.size());
  const auto n_visible = static_cast<int>(visible.size());
  const std::string where = "layer " + std::to_string(layer) + " head " + std::to_string(h) +
                            " token " + std::to_string(newest) + ": kept " + text_of(kept);
  if (!std::includes(visible.begin(), visible.end(), kept.begin(), kept.end()))
    return where + " of " + text_of(visible);
  const bool grows = !s.subject.traits.evicts || (!cut && !policy.scan_rule().has_value());
  // The budget that was asked for, not what the policy says of itself, unless it is shared out.
  const int budget = shares_budget(s.subject) ? replay.budget(h, layer) : s.c.budget_tokens;
  Bounds bounds = bounds_of(policy, budget, n_visible, cut);
  if (grows) bounds = {n_visible, n_visible};
  if (n > bounds.most) return where + ", more than " + std::to_string(bounds.most);
  if (n < bounds.least) return where + ", fewer than " + std::to_string(bounds.least);
  if (s.subject.traits.protects_last && kept.back() != newest) return where + " without the newest";
  return {};
}

std::string within_budget(const Situation& s) {
  const PolicyPtr policy = s.policy();
  Replay replay(policy, s.c.layers);
  const auto check = [&](int newest, bool cut) -> std::string {
    if (!replay.fault().empty()) return replay.fault();
    for (int layer = 0; layer < replay.n_layers(); ++layer) {
      for (int h = 0; h < replay.n_kv_heads(); ++h) {
        const auto wrong = check_unit(replay, *policy, s, h, layer, newest, cut);
        if (!wrong.empty()) return wrong;
      }
    }
    return {};
  };
  int t = s.prompt_tokens();
  const bool streamed = policy->prefill() == PrefillMode::kStreaming;
  if (t > 0) {
    replay.prompt(t);
    // A streamed prompt was held to the score's own rule, whatever comes after it.
    if (!streamed || policy->scan_rule()) {
      if (auto wrong = check(t - 1, !streamed); !wrong.empty()) return wrong;
    }
  }
  for (; t < s.c.n_tokens; t += policy->every()) {
    const int last = std::min(t + policy->every(), s.c.n_tokens) - 1;
    Positions expected = replay.kept();
    for (int i = t; i <= last; ++i) expected.push_back(i);
    replay.chunk(t, last);
    if (replay.fault().empty() && replay.visible() != expected)
      return "a row saw " + text_of(replay.visible()) + " instead of " + text_of(expected);
    if (auto wrong = check(last, false); !wrong.empty()) return wrong;
  }
  return {};
}

// ---- items 7 … 9: what shared budgets come to ----

std::string shared_totals(const Situation& s) {
  if (s.in_stream) return {};
  const PolicyPtr policy = s.policy();
  if (policy->prefill() == PrefillMode::kStreaming) return {};
  Replay replay(policy, s.c.layers);
  replay.prompt(s.c.prompt_tokens);
  if (!replay.fault().empty()) return replay.fault();
  const int n_layers = replay.n_layers();
  const int n_heads = replay.n_kv_heads();
  int total = 0;
  for (int layer = 0; layer < n_layers; ++layer) {
    for (int h = 0; h < n_heads; ++h) total += static_cast<int>(replay.kept(h, layer).size());
  }
  const int wanted = n_layers * n_heads * std::min(policy->budget_tokens(), s.c.prompt_tokens);
  // A cascade cannot give back what left a layer, so it may end below by one token a layer and
  // head; KVPress' budgets are not exact; scissorhands may drop more than it must.
  int short_of =
      policy->make_cascade() && policy->prefill() != PrefillMode::kTwoPass ? n_layers * n_heads : 0;
  const int drop = granularity_of(*policy).drop_tokens;
  short_of += n_layers * n_heads * (drop - 1);
  const bool exact = policy->fitted_params().count("pyramid.compat") == 0 ||
                     policy->fitted_params().at("pyramid.compat") != "kvpress";
  if (!exact) return {};
  if (total > wanted || total < wanted - short_of)
    return "heads and layers keep " + std::to_string(total) + " tokens in all instead of " +
           std::to_string(wanted);
  return {};
}

// ---- the rule as data and as host code ----

std::string rule_is_the_host_code(const Situation& s) {
  const PolicyPtr policy = s.policy();
  const auto rule = policy->scan_rule();
  if (!rule || rule->statistic == ScanRule::Statistic::kHost) return {};
  RequestOptions naive;
  naive.replay.make_state = [&](UnitPlace place, const KeptHead& start) {
    return std::make_unique<NaiveRule>(*rule, place, start);
  };
  return difference(run(policy, s), run(policy, s, naive));
}

bool hands_over(const Subject& subject) {
  return subject.spec && subject.traits.evicts && subject.spec->decode != DecodeMode::kSelf;
}

std::string second_rule_starts_at_zero(const Situation& s) {
  const PolicyPtr policy = s.policy();
  if (policy->prefill() == PrefillMode::kStreaming) return {};
  Replay replay(policy, s.c.layers);
  replay.prompt(s.c.prompt_tokens);
  if (!replay.fault().empty()) return replay.fault();
  for (const KeptHead& head : replay.cut()) {
    for (const float value : head.statistic) {
      if (value != 0.0F) return "another policy's statistic starts the rule after the prompt";
    }
    if (head.state != nullptr) return "another policy's state starts the rule after the prompt";
  }
  return {};
}

// ---- item 11 ----

bool heads_can_be_swapped(const Subject& subject) { return !subject.traits.heads_are_ordered; }

// The KV heads of each layer in another order, with their query heads.
RandomCase with_rotated_heads(RandomCase c) {
  const auto rotate = [&](auto& all) {
    const auto one = static_cast<std::ptrdiff_t>(all.size()) / c.n_kv_heads;
    std::rotate(all.begin(), all.begin() + one, all.end());
  };
  for (SyntheticLayer& layer : c.layers) {
    rotate(layer.table.weights);
    rotate(layer.queries);
    rotate(layer.keys);
    rotate(layer.values);
  }
  return c;
}

std::string heads_are_equal(const Situation& s) {
  const PolicyPtr policy = s.policy();
  const auto by_layer = [](const std::optional<ScanRule>& rule) {
    return rule && rule->scope == ScanRule::Scope::kLayer;
  };
  const bool one_set = s.subject.traits.one_set || by_layer(policy->scan_rule()) ||
                       by_layer(policy->streaming_rule());
  // A mean over all heads is summed in their order: exact for two heads alone. Ties between heads
  // go to the lower one.
  const int n_heads = s.c.n_kv_heads * s.c.group;
  if (s.c.n_kv_heads == 1 || (one_set && n_heads != 2)) return {};
  if (s.c.ties && (shares_budget(s.subject) || one_set)) return {};
  const RandomCase rotated = with_rotated_heads(s.c);
  Outcome got = run(policy, {s.subject, rotated, s.in_stream});
  const Outcome wanted = run(policy, s);
  const std::size_t n = s.c.n_kv_heads;
  for (std::size_t first = 0; first + n <= got.sets.size(); first += n) {
    const auto at = got.sets.begin() + static_cast<std::ptrdiff_t>(first);
    std::rotate(at, at + static_cast<std::ptrdiff_t>(n) - 1, at + static_cast<std::ptrdiff_t>(n));
  }
  return difference(got, wanted);
}

std::string slots_are_equal(const Situation& s) {
  const PolicyPtr policy = s.policy();
  RequestOptions reversed;
  reversed.replay.order = SlotOrder::kReversed;
  return difference(run(policy, s, reversed), run(policy, s));
}

// ---- item 12 ----

std::string scale_is_nothing(const Situation& s) {
  const PolicyPtr policy = s.policy();
  const Traits& traits = s.subject.traits;
  if (s.in_stream || policy->prefill() == PrefillMode::kStreaming || policy->make_cascade())
    return {};
  const auto cut = [&](float attention, float keys, float values) {
    const DensePrompt dense(s.c.layers.front(), policy->prompt_need(), s.c.prompt_tokens);
    PromptLayer view = dense.view(0, static_cast<int>(s.c.layers.size()));
    const auto scaled = [](std::span<const float> all, float by) {
      std::vector<float> out(all.begin(), all.end());
      for (float& x : out) x *= by;
      return out;
    };
    const auto w = scaled(view.column_weights, attention);
    const auto k = scaled(view.keys, keys);
    const auto v = scaled(view.values, values);
    view.column_weights = w;
    view.keys = k;
    view.values = v;
    Outcome outcome;
    for (const KeptHead& head : policy->select_prompt(view)) outcome.sets.push_back(head.positions);
    return outcome;
  };
  // Powers of two: no rounding.
  const float by_keys = traits.scaled_keys ? 4.0F : 1.0F;
  const float by_attention = traits.scaled_attention ? 8.0F : 1.0F;
  return difference(cut(by_attention, by_keys, 0.5F), cut(1.0F, 1.0F, 1.0F));
}

// ---- item 13 ----

bool is_position_only(const Subject& subject) { return subject.traits.position_only; }

std::string chunks_are_nothing(const Situation& s) {
  const PolicyPtr policy = s.policy();
  const auto last_sets = [&](const Situation& how, const PolicyPtr& made, int chunk) {
    RequestOptions options;
    options.chunk = chunk;
    Outcome outcome = run(made, how, options);
    const auto n = static_cast<std::ptrdiff_t>(s.c.layers.size()) * s.c.n_kv_heads;
    if (outcome.fault.empty() && static_cast<std::ptrdiff_t>(outcome.sets.size()) > n)
      outcome.sets.erase(outcome.sets.begin(), outcome.sets.end() - n);
    return outcome;
  };
  const Outcome one_by_one = last_sets(s, policy, 1);
  for (const int chunk : {2, 3, 7, s.c.n_tokens}) {
    if (auto wrong = difference(last_sets(s, policy, chunk), one_by_one); !wrong.empty())
      return "in chunks of " + std::to_string(chunk) + ": " + wrong;
  }
  // Nor does it matter whether the tokens before the end were a prompt.
  if (!s.in_stream || s.subject.traits.needs_layers) return {};
  const Situation with_prompt{s.subject, s.c, false};
  const auto wrong = difference(last_sets(with_prompt, with_prompt.policy(), 1), one_by_one);
  return wrong.empty() ? "" : "after a prompt: " + wrong;
}

bool same_in_one_chunk(const Subject& subject) {
  return subject.traits.same_cut_in_chunks && subject.make_other &&
         subject.spec->prefill != PrefillMode::kStreaming &&
         subject.spec->positions != PositionMode::kCacheRelative;
}

// Not with ties: a chunk's sums are rounded row by row, those of a dense prompt once.
std::string one_chunk_is_the_cut(const Situation& s) {
  if (s.in_stream || s.c.ties) return {};
  const auto cut = [&](const PolicyPtr& policy) {
    Replay replay(policy, s.c.layers);
    replay.prompt(s.c.prompt_tokens);
    Outcome outcome;
    outcome.fault = replay.fault();
    for (int layer = 0; layer < replay.n_layers(); ++layer) {
      for (int h = 0; h < s.c.n_kv_heads; ++h) outcome.sets.push_back(replay.kept(h, layer));
    }
    return outcome;
  };
  PolicySpec streamed = *s.subject.spec;
  streamed.prefill = PrefillMode::kStreaming;
  streamed.chunk = s.c.prompt_tokens;
  return difference(cut(s.subject.make_other(streamed, s.request())), cut(s.policy()));
}

// ---- item 17 ----

// Follows one unit's pages: what left must be whole pages, never the newest.
class Pages {
 public:
  explicit Pages(int page_tokens) : page_tokens_(page_tokens) {}
  void join(std::int32_t token) {
    if (pages_.empty() || static_cast<int>(pages_.back().size()) == page_tokens_)
      pages_.emplace_back();
    pages_.back().push_back(token);
  }
  std::string leave(const Positions& kept) {
    for (auto page = pages_.begin(); page != pages_.end();) {
      const auto stayed = std::count_if(page->begin(), page->end(), [&](std::int32_t token) {
        return std::binary_search(kept.begin(), kept.end(), token);
      });
      if (stayed == static_cast<std::ptrdiff_t>(page->size())) {
        ++page;
      } else if (stayed > 0) {
        return "page " + text_of(*page) + " left in part: " + text_of(kept);
      } else if (page + 1 == pages_.end()) {
        return "the newest page left";
      } else if (static_cast<int>(page->size()) != page_tokens_) {
        return "a page left that was not full";
      } else {
        page = pages_.erase(page);
      }
    }
    return {};
  }

 private:
  int page_tokens_;
  std::vector<Positions> pages_;
};

std::string pages_leave_whole(const Situation& s) {
  const PolicyPtr policy = s.policy();
  const auto rule = policy->scan_rule();
  if (!is_paged(*policy) || !rule || rule->statistic != ScanRule::Statistic::kHost) return {};
  if (policy->prefill() == PrefillMode::kStreaming) return {};  // as in stream
  Replay replay(policy, s.c.layers);
  int t = s.prompt_tokens();
  if (t > 0) replay.prompt(t);
  std::vector<Pages> pages(static_cast<std::size_t>(s.c.n_kv_heads),
                           Pages(granularity_of(*policy).page_tokens));
  for (int h = 0; h < s.c.n_kv_heads; ++h) {
    for (const std::int32_t token : replay.kept(h)) pages[h].join(token);
  }
  for (; t < s.c.n_tokens && replay.fault().empty(); t += policy->every()) {
    const int last = std::min(t + policy->every(), s.c.n_tokens) - 1;
    replay.chunk(t, last);
    for (int h = 0; h < s.c.n_kv_heads; ++h) {
      for (int token = t; token <= last; ++token) pages[h].join(token);
      if (auto wrong = pages[h].leave(replay.kept(h)); !wrong.empty()) return wrong;
    }
  }
  return replay.fault();
}

// ---- items 23 and 24 ----

std::string requests_are_apart(const Situation& s) {
  const PolicyPtr shared = s.policy();
  const RandomCase other = another_request(s.c);
  run(shared, {s.subject, other, s.in_stream});
  return difference(run(shared, s), run(s.policy(), s));
}

std::string copies_are_apart(const Situation& s) {
  const PolicyPtr policy = s.policy();
  const RandomCase other = another_request(s.c);
  const auto drive = [&](bool forks) {
    Replay replay(policy, s.c.layers);
    int t = s.prompt_tokens();
    if (t > 0) replay.prompt(t);
    Outcome outcome;
    if (t < s.c.n_tokens) run_rows(replay, t, t, 1, outcome);
    if (forks && replay.fault().empty()) {
      Outcome ignored;
      Replay copy = replay.fork();
      run_rows(copy, t + 1, s.c.n_tokens - 1, 1, ignored);
    }
    run_rows(replay, t + 1, s.c.n_tokens - 1, 1, outcome);
    outcome.fault = replay.fault();
    return outcome;
  };
  return difference(drive(true), drive(false));
}

std::string runs_are_equal(const Situation& s) {
  const PolicyPtr policy = s.policy();
  RequestOptions twice;
  twice.replay.select_twice = true;
  const Outcome alone = run(policy, s, twice);
  if (auto wrong = difference(run(s.policy(), s), alone); !wrong.empty()) return wrong;
  if (s.c.seed % 20 != 0) return {};  // threads cost more than the work
  std::array<Outcome, 4> results;
  std::vector<std::thread> threads;
  for (Outcome& result : results) threads.emplace_back([&] { result = run(policy, s); });
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& result : results) {
    if (auto wrong = difference(result, alone); !wrong.empty())
      return "by threads that share it: " + wrong;
  }
  return {};
}

// ---- 1.4 ----

std::string nan_leaves_first(const Situation& s) {
  if (s.in_stream || s.c.ties) return {};
  constexpr int kTokens = 8;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  FitRequest request;
  request.budget.tokens = 3;
  request.length = kTokens;
  const PolicyPtr policy = s.subject.make(request);
  const PromptNeed need = policy->prompt_need();
  const int n_layers = static_cast<int>(s.c.layers.size());
  if (need.rows != PromptNeed::Rows::kNone && need.replay_rows == 0 && !shares_budget(s.subject)) {
    // Column 2 lies outside every protected region and what pooling can reach from it.
    std::vector<float> weights(kTokens, 0.5F);
    weights[2] = kNan;
    PromptLayer view;
    view.n_layers = n_layers;
    view.n_heads = view.n_kv_heads = 1;
    view.prompt_tokens = kTokens;
    view.column_weights = weights;
    const KeptHead head = policy->select_prompt(view).front();
    if (std::count(head.positions.begin(), head.positions.end(), 2) != 0)
      return "a NaN score was kept: " + text_of(head.positions);
    if (head.positions.size() != 3) return "keeps " + text_of(head.positions) + " of 8, not 3";
    if (head.nan_scores < 1) return "a NaN score of the prompt was not counted";
  }
  const auto rule = policy->scan_rule();
  if (!rule || rule->statistic == ScanRule::Statistic::kNone ||
      rule->statistic == ScanRule::Statistic::kKeyNorm ||
      rule->statistic == ScanRule::Statistic::kHost)
    return {};
  KeptHead start;
  start.budget_tokens = 3;
  const auto state = policy->make_state({0, 0, n_layers}, start);
  const Positions visible = {8, 9, 10, 11};
  const std::vector<float> row = {0.1F, kNan, 0.2F, 0.7F};
  state->observe({visible, row, 1});
  // A last use is an integer and stays one.
  if (rule->statistic != ScanRule::Statistic::kLastUse &&
      state->select(visible) != Positions{0, 2, 3})
    return "a NaN did not leave first";
  return state->nan_scores() == 1 ? "" : "a NaN attention value was not counted";
}

}  // namespace

std::span<const Property> properties() {
  static constexpr std::array kTable = {
      Property{"1 fits", "with B ≥ T everything stays", always, keeps_what_fits},
      Property{"1 ratio", "a ratio of 1000 permille never evicts", always, full_ratio_never_evicts},
      Property{"2 budget",
               "at most B of what is visible, the newest among them, in order, and nothing returns",
               always, within_budget},
      Property{"7-9 totals", "heads and layers that share a budget hold its total", shares_budget,
               shared_totals},
      Property{"rule", "the in-stream rule as data and as host code keep the same", evicts,
               rule_is_the_host_code},
      Property{"handover", "a rule that takes over after the prompt starts at zero", hands_over,
               second_rule_starts_at_zero},
      Property{"11 heads", "KV heads in another order keep the same sets in that order",
               heads_can_be_swapped, heads_are_equal},
      Property{"11 slots", "where slots lie changes nothing", evicts, slots_are_equal},
      Property{"12 scale", "positive rescaling of scores changes nothing", evicts,
               scale_is_nothing},
      Property{"13 chunks", "position-only rules do not depend on the chunk", is_position_only,
               chunks_are_nothing},
      Property{"13 one chunk", "a prompt streamed in one chunk keeps what the dense cut keeps",
               same_in_one_chunk, one_chunk_is_the_cut},
      Property{"17 pages", "pages leave whole, and never the newest", evicts, pages_leave_whole},
      Property{"23 requests", "a second request is as if it were alone", always,
               requests_are_apart},
      Property{"23 copies", "a copied state and its origin share nothing", evicts,
               copies_are_apart},
      Property{"24 same", "asked again, or by several threads, the answer is the same", always,
               runs_are_equal},
      Property{"1.4 NaN", "NaN scores leave first and are counted", evicts, nan_leaves_first},
  };
  return kTable;
}

}  // namespace kvscope::conform
