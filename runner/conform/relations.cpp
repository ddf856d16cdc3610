// Items 3 … 6, 14 and 17 of policies.md 9: what one policy has to do with another.
#include <algorithm>
#include <array>
#include <vector>

#include "runner/base/splitmix.h"
#include "runner/conform/properties.h"

namespace kvscope::conform {
namespace {

template <class... Names>
bool is_one_of(const Subject& subject, Names... names) {
  return subject.make_other && ((subject.score() == names) || ...);
}

// A policy of the registry in the situation's place. `mine`: made as the subject is.
Outcome of(const Situation& s, const std::string& text, bool mine) {
  const MakePolicy make = mine ? s.subject.make_other : MakePolicy(fit_policy);
  return run(make(parse_policy(text), s.request()), s);
}

std::string written(const std::string& name, int value) {
  return ":" + name + "=" + std::to_string(value);
}

// ---- item 3 ----

bool can_be_a_window(const Subject& subject) {
  return is_one_of(subject, "sliding_window", "streaming_llm", "h2o");
}

std::string is_a_window(const Situation& s) {
  if (s.subject.score() == "sliding_window")
    return difference(of(s, "sliding_window", true), of(s, "streaming_llm:sinks=0", false));
  const Outcome window = of(s, "sliding_window", false);
  if (s.subject.score() == "streaming_llm")
    return difference(of(s, "streaming_llm:sinks=0", true), window);
  const std::string recent = written("recent", s.c.budget_tokens);
  for (const char* text : {"h2o", "h2o:norm=mean", "h2o:norm=decay"}) {
    if (auto wrong = difference(of(s, text + recent, true), window); !wrong.empty())
      return text + recent + ": " + wrong;
  }
  return {};
}

// ---- item 4 ----

bool degenerates(const Subject& subject) {
  return is_one_of(subject, "h2o", "tova", "lru", "scissorhands");
}

std::string is_plain_under_uniform_attention(const Situation& given) {
  const RandomCase uniform = with_uniform_attention(given.c);
  const Situation s{given.subject, uniform, given.in_stream};
  if (s.subject.score() == "h2o") {
    const int budget = s.c.budget_tokens;
    const int recent = 1 + static_cast<int>(smix(s.c.seed) % static_cast<std::uint64_t>(budget));
    const Outcome streaming = of(s, "streaming_llm" + written("sinks", budget - recent), false);
    const std::string more = written("recent", recent);
    if (auto wrong = difference(of(s, "h2o" + more, true), streaming); !wrong.empty()) return wrong;
    // Means only up to the cut: rows of a long dense prompt are flatter than rows over B + 1.
    if (!s.in_stream) return {};
    return difference(of(s, "h2o:norm=mean" + more, true), streaming);
  }
  std::string text(s.subject.score());
  if (text == "scissorhands") text += ":drop=1";
  return difference(of(s, text, true), of(s, "sliding_window", false));
}

// ---- item 5 ----

bool is_snapkv(const Subject& subject) { return is_one_of(subject, "snapkv"); }

std::string is_one_shot_tova(const Situation& given) {
  RandomCase c = given.c;
  c.n_kv_heads = c.group = 1;
  c.prompt_tokens = std::max(2, c.prompt_tokens);
  c.layers.resize(1);
  c.layers[0].n_kv_heads = 1;
  c.layers[0].table.n_heads = 1;
  const Situation s{given.subject, c, false};
  return difference(of(s, "snapkv:window=1:kernel=1", true), of(s, "tova:decode=grow", false));
}

// ---- item 6 ----

std::string averages_pool_in_any_order(const Situation& s) {
  if (s.in_stream || s.c.ties) return {};  // ties: the orders round differently
  return difference(of(s, "snapkv:order=pool_agg", true), of(s, "snapkv", false));
}

struct OneShot {
  std::string_view score;
  const char* text;
};
constexpr OneShot kOneShot[] = {
    {"sliding_window", "sliding_window:decode=grow"},
    {"streaming_llm", "streaming_llm:sinks=1:decode=grow"},
    {"random", "random:decode=grow"},
    {"lru", "lru:decode=grow"},
    {"h2o", "h2o:recent=2:decode=grow"},
    {"tova", "tova:decode=grow"},
    {"snapkv", "snapkv:window=2"},
    {"snapkv", "snapkv:window=2:pool=max:order=pool_agg"},
    {"knorm", "knorm:decode=grow"},
    {"keydiff", "keydiff:decode=grow"},
    {"expected_attention", "expected_attention:n_sink=1"},
};

bool is_one_shot(const Subject& subject) {
  return subject.make_other &&
         std::any_of(std::begin(kOneShot), std::end(kOneShot),
                     [&](const OneShot& one) { return one.score == subject.score(); });
}

std::string sets_are_nested(const Situation& given) {
  RandomCase c = given.c;
  c.prompt_tokens = c.n_tokens;
  if (c.prompt_tokens < 4) return {};
  for (const OneShot& one : kOneShot) {
    if (one.score != given.subject.score()) continue;
    Outcome smaller;
    for (c.budget_tokens = 2; c.budget_tokens <= c.prompt_tokens; c.budget_tokens += 3) {
      const Outcome larger = of({given.subject, c, false}, one.text, true);
      if (!larger.fault.empty()) return larger.fault;
      for (std::size_t i = 0; i < smaller.sets.size(); ++i) {
        const Positions& a = smaller.sets[i];
        const Positions& b = larger.sets[i];
        if (!std::includes(b.begin(), b.end(), a.begin(), a.end()))
          return std::string(one.text) + ": " + text_of(b) + " of " +
                 std::to_string(c.budget_tokens) + " tokens lacks some of " + text_of(a);
      }
      smaller = larger;
    }
  }
  return {};
}

// ---- item 14 ----

bool is_random(const Subject& subject) { return is_one_of(subject, "random"); }

std::string samples_are_nested(const Situation& given) {
  RandomCase c = given.c;
  Positions smaller;
  for (c.budget_tokens = 1; c.budget_tokens <= c.n_tokens; c.budget_tokens += 2) {
    const Outcome larger = of({given.subject, c, true}, "random:protect_last=false:seed=9", true);
    if (!larger.fault.empty()) return larger.fault;
    const Positions& kept = larger.sets.back();
    if (!std::includes(kept.begin(), kept.end(), smaller.begin(), smaller.end()))
      return text_of(kept) + " lacks some of " + text_of(smaller);
    smaller = kept;
  }
  return {};
}

RandomCase long_case(int n_tokens, int budget_tokens, int n_kv_heads, int n_layers) {
  RandomCase c;
  c.n_kv_heads = n_kv_heads;
  c.n_tokens = c.prompt_tokens = n_tokens;
  c.budget_tokens = budget_tokens;
  for (int l = 0; l < n_layers; ++l) {
    SyntheticLayer layer;
    layer.n_kv_heads = n_kv_heads;
    layer.table = AttentionTable(n_kv_heads, n_tokens);
    c.layers.push_back(std::move(layer));
  }
  return c;
}

std::string every_position_is_equally_likely(const Situation& s) {
  if (s.c.seed != 0 || s.c.shape != Shape::kMha) return {};  // once
  constexpr int kTokens = 40;
  constexpr int kSeeds = 1000;
  const RandomCase c = long_case(kTokens, 10, 1, 1);
  std::vector<int> included(kTokens, 0);
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome =
        of({s.subject, c, true}, "random:protect_last=false" + written("seed", seed), true);
    if (!outcome.fault.empty()) return outcome.fault;
    for (const auto position : outcome.sets.back()) ++included[position];
  }
  // Sampling without replacement: Σ (n_i - Np)² / (Np(1-p)) · (T-1)/T is χ² with T - 1 = 39 degrees
  // of freedom; its 99.9 % quantile is 72.1 and its 0.1 % quantile 16.3. The seeds are fixed, so
  // this either holds or does not.
  const double p = 10.0 / kTokens;
  double chi_squared = 0.0;
  for (const int n : included) {
    const double off = n - kSeeds * p;
    chi_squared += off * off / (kSeeds * p * (1.0 - p)) * (kTokens - 1) / kTokens;
  }
  if (chi_squared > 16.3 && chi_squared < 72.1) return {};
  return "χ² of 39 degrees of freedom is " + std::to_string(chi_squared);
}

std::string places_differ(const Situation& s) {
  if (s.c.seed != 0 || s.c.shape != Shape::kMha) return {};  // once
  const RandomCase c = long_case(64, 16, 2, 2);
  for (const char* mode : {"", ":mode=uniform_victim"}) {
    const std::string text = std::string("random") + mode;
    const Outcome outcome = of({s.subject, c, false}, text, true);
    if (!outcome.fault.empty()) return outcome.fault;
    if (outcome.sets[0] == outcome.sets[1]) return "two KV heads keep the same sample";
    if (outcome.sets[0] == outcome.sets[2]) return "two layers keep the same sample";
    if (outcome.sets[0] == of({s.subject, c, false}, text + ":seed=1", true).sets[0])
      return "two seeds keep the same sample";
  }
  return {};
}

// ---- item 17 ----

struct TokenPolicy {
  std::string_view score;
  const char* text;
};
constexpr TokenPolicy kTokenPolicies[] = {
    {"sliding_window", "sliding_window"},
    {"streaming_llm", "streaming_llm"},
    {"random", "random"},
    {"random", "random:mode=uniform_victim"},
    {"lru", "lru"},
    {"h2o", "h2o"},
    {"h2o", "h2o:norm=mean"},
    {"scissorhands", "scissorhands:drop=1"},
    {"tova", "tova"},
    {"knorm", "knorm"},
    {"keydiff", "keydiff"},
};

bool drops_tokens(const Subject& subject) {
  return subject.make_other &&
         std::any_of(std::begin(kTokenPolicies), std::end(kTokenPolicies),
                     [&](const TokenPolicy& one) { return one.score == subject.score(); });
}

std::string pages_of_one_token_are_tokens(const Situation& s) {
  for (const TokenPolicy& one : kTokenPolicies) {
    if (one.score != s.subject.score()) continue;
    const std::string text = one.text;
    const auto wrong = difference(of(s, text + "+page:size=1", true), of(s, text, false));
    if (!wrong.empty()) return text + "+page:size=1: " + wrong;
  }
  return {};
}

bool reads_pages(const Subject& subject) { return is_one_of(subject, "quest"); }

std::string reads_the_budget_in_pages(const Situation& s) {
  for (const int page : {1, 2, 3}) {
    const PolicyPtr policy =
        s.subject.make_other(parse_policy("quest" + written("page", page)), s.request());
    const auto rule = policy->read_rule();
    const int wanted = std::max(1, s.c.budget_tokens / page);
    if (!rule || rule->page_tokens != page || rule->n_pages != wanted)
      return "does not read " + std::to_string(wanted) + " pages of " + std::to_string(page);
  }
  return {};
}

// ---- formulas of which no vector shows every term: requests made so that the term decides ----

// A prompt whose newest token is the window (or what is protected), kept by a budget.
std::string kept_of(const Situation& s, const SyntheticLayer& layer, const std::string& text,
                    int budget, const Positions& wanted) {
  const int n = layer.table.n_tokens;
  Replay replay(fitted(text, budget, n, false, s.subject.make_other), std::span(&layer, 1));
  replay.prompt(n);
  if (!replay.fault().empty()) return replay.fault();
  if (replay.kept() == wanted) return {};
  return text + " keeps " + text_of(replay.kept()) + " instead of " + text_of(wanted);
}

bool is_cake(const Subject& subject) { return is_one_of(subject, "cake"); }

// Token 0 has the larger mean in the window's rows, token 1 the larger variance.
std::string variance_counts(const Situation& s) {
  SyntheticLayer layer;
  layer.table = AttentionTable(1, 4);
  layer.table.at(0, 2, 0) = layer.table.at(0, 3, 0) = 0.3;
  layer.table.at(0, 2, 1) = 0.4;
  layer.table.at(0, 2, 2) = 0.3;
  layer.table.at(0, 3, 1) = 0.1;
  layer.table.at(0, 3, 2) = layer.table.at(0, 3, 3) = 0.3;
  auto wrong = kept_of(s, layer, "cake:window=2:kernel=1", 3, {1, 2, 3});
  if (wrong.empty()) wrong = kept_of(s, layer, "cake:window=2:kernel=1:gamma=0", 3, {0, 2, 3});
  return wrong;
}

bool expects_attention(const Subject& subject) { return is_one_of(subject, "expected_attention"); }

// Queries spread along one axis around zero: the key on that axis is what they may look for.
std::string spread_counts(const Situation& s) {
  SyntheticLayer layer;
  layer.head_dim = 2;
  layer.inverse_frequency = {0.0F};
  layer.table = AttentionTable(1, 5);
  layer.queries = {1, 0, -1, 0, 2, 0, -2, 0, 0, 0};
  layer.keys = {0, 0.5F, 2, 0, 0, 2, 0, 2, 0, 1};
  layer.values.assign(10, 1.0F);
  const std::string more = ":n_sink=0:horizon=1";
  auto wrong = kept_of(s, layer, "expected_attention" + more, 2, {1, 4});
  // Without it all keys are equal, and newer wins.
  if (wrong.empty())
    wrong = kept_of(s, layer, "expected_attention:covariance=false" + more, 2, {3, 4});
  // Sinks stay whatever their score.
  if (wrong.empty())
    wrong = kept_of(s, layer, "expected_attention:n_sink=1:horizon=1", 3, {0, 1, 4});
  return wrong;
}

}  // namespace

std::span<const Property> relations() {
  static constexpr std::array kTable = {
      Property{"3 window", "without heavy hitters or sinks it is a sliding window", can_be_a_window,
               is_a_window},
      Property{"4 uniform", "under uniform attention it is a window, h2o is streaming_llm",
               degenerates, is_plain_under_uniform_attention},
      Property{"5 one row", "snapkv of one row without pooling is one-shot tova", is_snapkv,
               is_one_shot_tova},
      Property{"6 order", "averages pool before or after heads are reduced", is_snapkv,
               averages_pool_in_any_order},
      Property{"6 nested", "one-shot sets are nested in the budget", is_one_shot, sets_are_nested},
      Property{"14 nested", "samples are nested in the budget", is_random, samples_are_nested},
      Property{"14 uniform", "every position is equally likely", is_random,
               every_position_is_equally_likely},
      Property{"14 places", "layers, KV heads and seeds have their own samples", is_random,
               places_differ},
      Property{"17 one token", "pages of one token are tokens", drops_tokens,
               pages_of_one_token_are_tokens},
      Property{"cake variance", "the variance decides between tokens of like means", is_cake,
               variance_counts},
      Property{"expected spread", "the spread of queries decides, and sinks stay",
               expects_attention, spread_counts},
      Property{"quest pages", "reads the budget in whole pages", reads_pages,
               reads_the_budget_in_pages},
  };
  return kTable;
}

}  // namespace kvscope::conform
