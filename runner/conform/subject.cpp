#include "runner/conform/subject.h"

#include <algorithm>

#include "runner/policies/parts.h"

namespace kvscope::conform {
namespace {

std::vector<std::string> choices_of(const ParamInfo& param) {
  const std::string values(param.values.substr(0, param.values.find(" (")));
  std::vector<std::string> choices;
  if (values.find('|') == std::string::npos) return choices;
  for (std::size_t at = 0; at != std::string::npos; at = values.find('|', at)) {
    if (at != 0) ++at;
    choices.push_back(values.substr(at, values.find('|', at) - at));
  }
  return choices;
}

// The grammar refuses some combinations; then there is nothing to test.
void add_if_allowed(const std::string& text, std::vector<std::string>& texts) {
  try {
    const PolicySpec spec = parse_policy(text);
    if (std::find(texts.begin(), texts.end(), spec.canonical) == texts.end())
      texts.push_back(spec.canonical);
  } catch (const UsageError&) {
  }
}

// What may follow any policy and changes which tokens stay.
constexpr std::string_view kFollowing[] = {
    ":prefill=streaming:chunk=3",
    ":every=3",
    ":norm=decay:lambda=0.5",
    ":every=2:prefill=streaming:chunk=4",
    "+pyramid:beta=4",
    "+pyramid",
    "+pyramid:compat=kvpress",
    "+adakv",
    "+adakv:alpha=0",
    "+adakv:alpha=1",
    "+adakv:normalize=true",
    "+pyramid+adakv",
    "+cake",
    "+page:size=1",
    "+page:size=2",
    "+page:size=3:agg=max",
    "+page:size=2:agg=sum:sink_pages=1",
    ":every=2+page:size=3",
    ":prefill=streaming:chunk=3+page:size=2",
    ":decode=window+pyramid:beta=4",
};

int fitted_param(const Policy& policy, const char* name, int absent) {
  const auto found = policy.fitted_params().find(name);
  if (found == policy.fitted_params().end() || found->second == "auto") return absent;
  return std::stoi(found->second);
}

}  // namespace

namespace {

// Of a plug-in nothing is known but what it declares.
Traits plugin_traits(const PolicySpec& spec) {
  const PolicyPtr policy =
      fit_policy(spec, {{.permille = std::nullopt, .tokens = 2}, 4, spec.acts_in_stream()});
  const auto rule = policy->streaming_rule();
  Traits traits;
  traits.acts_in_stream = spec.acts_in_stream();
  traits.protects_last = spec.protect_last;
  traits.one_set = rule && rule->scope == ScanRule::Scope::kLayer;
  traits.heads_are_ordered = true;
  traits.scaled_attention = false;
  return traits;
}

}  // namespace

Traits traits_of(const PolicySpec& spec) {
  const PolicyInfo& info = *spec.info;
  if (find_policy(spec.score) == nullptr) return plugin_traits(spec);
  const Composition parts = compose(spec);
  const auto param = [&](const char* name) {
    const auto found = spec.params.find(name);
    return found == spec.params.end() ? std::string() : found->second;
  };
  const bool positions_alone = spec.score == "sliding_window" || spec.score == "streaming_llm" ||
                               (spec.score == "random" && param("mode") == "reservoir");
  const bool paged = parts.page || info.own_page;
  Traits traits;
  traits.evicts = !spec.is_full() && spec.score != "quest";
  traits.acts_in_stream = spec.acts_in_stream();
  // Scores that keep a window keep the newest token in any case, and so do pages.
  traits.protects_last = spec.protect_last;
  traits.needs_layers = parts.pyramid || parts.cake;
  traits.ragged = parts.heads.has_value();
  traits.position_only = positions_alone && traits.evicts && !paged && !parts.heads &&
                         !parts.cake && spec.decode == DecodeMode::kSelf;
  traits.one_set = (spec.score == "tova" && param("scope") == "layer") ||
                   param("heads") == "summed" || info.own_page;
  // Counts and positions tie between heads, and then the lower head gets the token.
  const bool ties = positions_alone || spec.score == "lru" || spec.score == "scissorhands";
  traits.heads_are_ordered = spec.score == "random" || (parts.heads && ties);
  traits.scaled_attention = spec.score != "cake" && !parts.cake && !parts.heads;
  traits.scaled_keys = spec.score == "knorm" || spec.score == "keydiff" || info.own_page;
  traits.same_cut_in_chunks = info.streams_prompt && traits.evicts && !paged && !parts.heads &&
                              !parts.cake && !parts.sparse_prefill;
  return traits;
}

Subject subject_of(const PolicySpec& spec, const MakePolicy& make) {
  Subject subject;
  subject.text = spec.canonical;
  subject.make = [spec, make](const FitRequest& request) { return make(spec, request); };
  subject.traits = traits_of(spec);
  subject.spec = spec;
  subject.make_other = make;
  return subject;
}

std::vector<std::string> variants_of(const PolicyInfo& info) {
  const std::string name(info.name);
  std::vector<std::string> texts = {name};
  std::vector<ParamInfo> params(info.params.begin(), info.params.end());
  params.insert(params.end(), common_params().begin(), common_params().end());
  for (const ParamInfo& param : params) {
    for (const std::string& choice : choices_of(param)) {
      std::string text = name;
      if (!param.only_with.empty()) text.append(":").append(param.only_with);
      text.append(":").append(param.name).append("=").append(choice);
      add_if_allowed(text, texts);
      if (param.name == "decode") add_if_allowed(text + ":prefill=streaming:chunk=3", texts);
    }
  }
  for (const std::string_view more : kFollowing) add_if_allowed(name + std::string(more), texts);
  return texts;
}

Granularity granularity_of(const Policy& policy) {
  Granularity granularity;
  granularity.page_tokens = fitted_param(policy, "page.size", fitted_param(policy, "block", 1));
  granularity.sink_pages =
      fitted_param(policy, "page.sink_pages", fitted_param(policy, "sink_blocks", 0));
  granularity.drop_tokens = fitted_param(policy, "drop", 1);
  const int sinks = fitted_param(policy, "sinks", fitted_param(policy, "n_sink", 0));
  const int page = granularity.page_tokens;
  granularity.sink_pages = std::max(granularity.sink_pages, (sinks + page - 1) / page);
  return granularity;
}

PolicyPtr fitted(const std::string& text, int budget_tokens, int length, bool in_stream,
                 const MakePolicy& make) {
  FitRequest request;
  request.budget.tokens = budget_tokens;
  request.length = length;
  request.in_stream = in_stream;
  return make(parse_policy(text), request);
}

}  // namespace kvscope::conform
