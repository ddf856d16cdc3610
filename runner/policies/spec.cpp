#include "runner/policies/spec.h"

#include <algorithm>
#include <array>

#include "runner/base/error.h"
#include "runner/policies/nearest.h"
#include "runner/policies/params.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

// Parts of the grammar that have no implementation in this build.
constexpr std::array<std::string_view, 8> kParts = {"pyramid", "adakv",  "cake",       "kivi",
                                                    "kv_int8", "kv_fp8", "minference", "page"};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::string prefix(std::string_view text) { return "policy \"" + std::string(text) + "\": "; }

std::string quoted(std::string_view text) {
  std::string result(1, '"');
  result += text;
  result += '"';
  return result;
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const PolicyInfo& info : policies()) names.push_back(info.name);
  return names;
}

std::vector<ParamInfo> params_of(const PolicyInfo& info) {
  std::vector<ParamInfo> params(info.params.begin(), info.params.end());
  for (ParamInfo common : common_params()) {
    if (common.name == "decode") common.fallback = name_of(info.default_decode);
    if (common.name == "positions") common.fallback = name_of(info.default_positions);
    params.push_back(common);
  }
  return params;
}

const PolicyInfo& known_policy(std::string_view text, std::string_view name) {
  if (name.empty()) {
    throw UsageError(prefix(text) + "a policy's name is missing; write NAME[:key=value…], e.g. " +
                     "h2o:norm=mean");
  }
  const PolicyInfo* info = find_policy(name);
  if (info != nullptr) return *info;
  const auto names = policy_names();
  if (std::find(kParts.begin(), kParts.end(), name) != kParts.end()) {
    throw UsageError(prefix(text) + quoted(name) + " is no policy of its own but a part that " +
                     "follows one after \"+\"; known policies: " + joined(names));
  }
  throw UsageError(prefix(text) + "unknown policy " + quoted(name) + suggestion(name, names) +
                   " (known: " + joined(names) + ")");
}

const ParamInfo& known_param(std::string_view text, const PolicyInfo& info,
                             const std::vector<ParamInfo>& params, std::string_view key) {
  const auto found = std::find_if(params.begin(), params.end(),
                                  [key](const ParamInfo& param) { return param.name == key; });
  if (found != params.end()) return *found;
  std::vector<std::string_view> names;
  for (const ParamInfo& param : params) names.push_back(param.name);
  throw UsageError(prefix(text) + std::string(info.name) + " has no parameter " + quoted(key) +
                   suggestion(key, names) + " (known: " + joined(names) + ")");
}

void read_param(std::string_view text, const PolicyInfo& info, const std::vector<ParamInfo>& params,
                std::string_view piece, PolicySpec& spec) {
  const std::size_t equals = piece.find('=');
  const std::string_view key = piece.substr(0, equals);
  if (equals == std::string_view::npos || key.empty()) {
    throw UsageError(prefix(text) + quoted(piece) + " is not of the form key=value");
  }
  const ParamInfo& param = known_param(text, info, params, key);
  const std::string_view value = piece.substr(equals + 1);
  if (param.name == "mode" && value == "uniform_victim") {
    throw UsageError(prefix(text) +
                     "mode=uniform_victim is not available in this build; use mode=reservoir");
  }
  const std::string checked = checked_value(prefix(text), param, value);
  if (!spec.written.emplace(key, checked).second) {
    throw UsageError(prefix(text) + std::string(key) + " is given twice; give it once");
  }
  spec.params[std::string(key)] = checked;
}

// Parts are recognised, so that a misspelt one and one of another build get different answers.
void refuse_parts(std::string_view text, std::span<const std::string_view> parts) {
  for (const std::string_view part : parts) {
    const std::string_view name = part.substr(0, part.find(':'));
    if (std::find(kParts.begin(), kParts.end(), name) == kParts.end()) {
      throw UsageError(prefix(text) + "unknown part " + quoted(name) + " after \"+\"" +
                       suggestion(name, kParts));
    }
    throw UsageError(prefix(text) + "this build has no part " + quoted(name) + "; leave \"+" +
                     std::string(part) + "\" out");
  }
}

template <class Mode>
Mode mode_named(std::string_view name, std::initializer_list<Mode> modes) {
  return *std::find_if(modes.begin(), modes.end(),
                       [name](Mode mode) { return name_of(mode) == name; });
}

void read_modes(PolicySpec& spec) {
  spec.decode = mode_named(spec.params.at("decode"),
                           {DecodeMode::kSelf, DecodeMode::kGrow, DecodeMode::kWindow,
                            DecodeMode::kTova, DecodeMode::kH2o});
  spec.positions =
      mode_named(spec.params.at("positions"),
                 {PositionMode::kAbsolute, PositionMode::kCacheRelative, PositionMode::kRerotate});
  spec.prefill =
      mode_named(spec.params.at("prefill"),
                 {PrefillMode::kMonolithic, PrefillMode::kStreaming, PrefillMode::kTwoPass});
  spec.chunk = int_param(spec, "chunk");
  spec.protect_last = spec.params.at("protect_last") == "true";
}

void check_combinations(std::string_view text, const PolicyInfo& info,
                        const std::vector<ParamInfo>& params, const PolicySpec& spec) {
  for (const ParamInfo& param : params) {
    if (param.only_with.empty() || !spec.written.contains(std::string(param.name))) continue;
    const std::size_t equals = param.only_with.find('=');
    const std::string key(param.only_with.substr(0, equals));
    if (spec.params.at(key) != param.only_with.substr(equals + 1)) {
      throw UsageError(prefix(text) + std::string(param.name) + " has no effect without " +
                       std::string(param.only_with) + "; write both or neither");
    }
  }
  if (spec.is_full() && spec.decode != DecodeMode::kSelf) {
    throw UsageError(prefix(text) + "full never evicts, so decode=" + spec.params.at("decode") +
                     " means nothing; leave it out");
  }
  if (!info.has_in_stream_rule && spec.decode == DecodeMode::kSelf) {
    throw UsageError(prefix(text) + std::string(info.name) +
                     " acts at the prompt's end only and has no rule for decoding; use "
                     "decode=grow, window, tova or h2o");
  }
  if (spec.prefill == PrefillMode::kStreaming && !info.has_in_stream_rule) {
    throw UsageError(prefix(text) + std::string(info.name) +
                     " acts at the prompt's end only, so there is nothing to do during a streaming "
                     "prefill; use prefill=monolithic or two_pass");
  }
}

std::string canonical_text(const PolicySpec& spec, const std::vector<ParamInfo>& params) {
  std::string text = spec.score;
  for (const ParamInfo& param : params) {
    const std::string name(param.name);
    if (spec.params.at(name) != param.fallback) text += ":" + name + "=" + spec.params.at(name);
  }
  return text;
}

}  // namespace

bool PolicySpec::acts_in_stream() const {
  const PolicyInfo* info = find_policy(score);
  return info != nullptr && info->has_in_stream_rule && decode == DecodeMode::kSelf;
}

PolicySpec parse_policy(std::string_view untrimmed) {
  const std::string_view text = trimmed(untrimmed);
  const auto parts = split(text, '+');
  const auto pieces = split(parts.front(), ':');
  const PolicyInfo& info = known_policy(text, pieces.front());
  const std::vector<ParamInfo> params = params_of(info);

  PolicySpec spec;
  spec.score = info.name;
  for (const ParamInfo& param : params) spec.params[std::string(param.name)] = param.fallback;
  for (std::size_t i = 1; i < pieces.size(); ++i) read_param(text, info, params, pieces[i], spec);
  refuse_parts(text, std::span(parts).subspan(1));
  read_modes(spec);
  check_combinations(text, info, params, spec);
  spec.canonical = canonical_text(spec, params);
  return spec;
}

std::vector<PolicySpec> parse_policy_list(std::string_view comma_separated) {
  std::vector<PolicySpec> specs;
  for (const std::string_view text : split(comma_separated, ',')) {
    PolicySpec spec = parse_policy(text);
    for (const PolicySpec& other : specs) {
      if (other.canonical == spec.canonical) {
        throw UsageError("policies: " + spec.canonical + " is listed twice; list each policy once");
      }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace kvscope
