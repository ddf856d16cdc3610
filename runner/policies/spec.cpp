#include "runner/policies/spec.h"

#include <algorithm>

#include "runner/base/error.h"
#include "runner/policies/catalog.h"
#include "runner/policies/nearest.h"
#include "runner/policies/params.h"
#include "runner/policies/parts.h"
#include "runner/policies/registry.h"
#include "runner/policies/spec_checks.h"

namespace kvscope {
namespace {

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

std::vector<std::string_view> policy_names(const PolicyCatalog& catalog) {
  std::vector<std::string_view> names;
  for (const auto& info : catalog.all()) names.push_back(info->name);
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

std::vector<std::string_view> part_names() {
  std::vector<std::string_view> names;
  for (const PartInfo& info : parts()) names.push_back(info.name);
  return names;
}

// What a text before the first "+" names: a score, or a part that stands for a score and itself.
struct Head {
  std::shared_ptr<const PolicyInfo> score;
  const PartInfo* part = nullptr;
};

Head known_head(std::string_view text, std::string_view name, const PolicyCatalog& catalog) {
  if (name.empty()) {
    throw UsageError(prefix(text) + "a policy's name is missing; write NAME[:key=value…], e.g. " +
                     "h2o:norm=mean");
  }
  if (auto info = catalog.find(name)) return {std::move(info), nullptr};
  const PartInfo* part = find_part(name == "pyramidkv" ? "pyramid" : name);
  if (part != nullptr && !part->alone.empty()) return {catalog.find(part->alone), part};
  const auto names = policy_names(catalog);
  if (part != nullptr) {
    throw UsageError(prefix(text) + quoted(name) + " is no policy of its own but a part that " +
                     "follows one after \"+\"; known policies: " + joined(names));
  }
  std::vector<std::string_view> all = names;
  for (const std::string_view known : part_names()) all.push_back(known);
  throw UsageError(prefix(text) + "unknown policy " + quoted(name) + suggestion(name, all) +
                   " (known: " + joined(names) + "; parts after \"+\": " + joined(part_names()) +
                   ")");
}

const PartInfo& known_part(std::string_view text, std::string_view name) {
  const PartInfo* info = find_part(name);
  if (info != nullptr) return *info;
  throw UsageError(prefix(text) + "unknown part " + quoted(name) + " after \"+\"" +
                   suggestion(name, part_names()) + " (known: " + joined(part_names()) + ")");
}

const ParamInfo* param_named(std::span<const ParamInfo> params, std::string_view key) {
  const auto found = std::find_if(params.begin(), params.end(),
                                  [key](const ParamInfo& param) { return param.name == key; });
  return found == params.end() ? nullptr : &*found;
}

struct KeyValue {
  std::string_view key;
  std::string_view value;
};

KeyValue key_value(std::string_view text, std::string_view piece) {
  const std::size_t equals = piece.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw UsageError(prefix(text) + quoted(piece) + " is not of the form key=value");
  }
  return {piece.substr(0, equals), piece.substr(equals + 1)};
}

// Reads one key into the params and written values of a score or part.
template <class Spec>
void read_param(std::string_view text, std::string_view owner, std::span<const ParamInfo> params,
                const KeyValue& pair, Spec& spec) {
  const ParamInfo* param = param_named(params, pair.key);
  if (param == nullptr) {
    std::vector<std::string_view> names;
    for (const ParamInfo& known : params) names.push_back(known.name);
    throw UsageError(prefix(text) + std::string(owner) + " has no parameter " + quoted(pair.key) +
                     suggestion(pair.key, names) +
                     (names.empty() ? std::string() : " (known: " + joined(names) + ")"));
  }
  const std::string checked = checked_value(prefix(text), *param, pair.value);
  if (!spec.written.emplace(pair.key, checked).second) {
    throw UsageError(prefix(text) + std::string(pair.key) + " is given twice; give it once");
  }
  spec.params[std::string(pair.key)] = checked;
}

PartSpec new_part(const PartInfo& info) {
  PartSpec part;
  part.name = info.name;
  for (const ParamInfo& param : info.params) part.params[std::string(param.name)] = param.fallback;
  return part;
}

void add_part(std::string_view text, PartSpec part, std::vector<PartSpec>& parts) {
  for (const PartSpec& other : parts) {
    if (other.name == part.name) {
      throw UsageError(prefix(text) + "part " + quoted(part.name) +
                       " is given twice; give it once");
    }
    const auto kind = find_part(part.name)->kind;
    if (kind == find_part(other.name)->kind) {
      throw UsageError(prefix(text) + quoted(part.name) + " and " + quoted(other.name) +
                       " decide the same thing; give one of them");
    }
  }
  parts.push_back(std::move(part));
}

std::vector<PartSpec> in_registry_order(std::vector<PartSpec> given) {
  std::vector<PartSpec> ordered;
  for (const PartInfo& info : parts()) {
    for (PartSpec& part : given) {
      if (part.name == info.name) ordered.push_back(std::move(part));
    }
  }
  return ordered;
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
  spec.every = int_param(spec, "every");
  spec.protect_last = spec.params.at("protect_last") == "true";
}

// `only_with` of parameters that were written.
template <class Spec>
void check_only_with(std::string_view text, std::span<const ParamInfo> params, const Spec& spec) {
  for (const ParamInfo& param : params) {
    if (param.only_with.empty() || !spec.written.contains(std::string(param.name))) continue;
    const std::size_t equals = param.only_with.find('=');
    const std::string key(param.only_with.substr(0, equals));
    if (spec.params.at(key) != param.only_with.substr(equals + 1)) {
      throw UsageError(prefix(text) + std::string(param.name) + " has no effect without " +
                       std::string(param.only_with) + "; write both or neither");
    }
  }
}

std::string canonical_text(const PolicySpec& spec, const std::vector<ParamInfo>& params) {
  std::string text = spec.score;
  for (const ParamInfo& param : params) {
    const std::string name(param.name);
    if (spec.params.at(name) != param.fallback) text += ":" + name + "=" + spec.params.at(name);
  }
  for (const PartSpec& part : spec.parts) {
    text += "+" + part.name;
    for (const ParamInfo& param : find_part(part.name)->params) {
      const std::string name(param.name);
      if (part.params.at(name) != param.fallback) text += ":" + name + "=" + part.params.at(name);
    }
  }
  return text;
}

}  // namespace

bool PolicySpec::acts_in_stream() const {
  const Composition parts_of = compose(*this);
  return info != nullptr && info->has_in_stream_rule && !info->needs_prompt && !parts_of.cake &&
         !parts_of.heads && !parts_of.sparse_prefill && decode == DecodeMode::kSelf;
}

PolicySpec parse_policy(std::string_view text) { return parse_policy(text, PolicyCatalog()); }

PolicySpec parse_policy(std::string_view untrimmed, const PolicyCatalog& catalog) {
  const std::string_view text = trimmed(untrimmed);
  const auto texts = split(text, '+');
  const auto pieces = split(texts.front(), ':');
  const Head head = known_head(text, pieces.front(), catalog);
  const PolicyInfo& info = *head.score;
  const std::vector<ParamInfo> params = params_of(info);

  PolicySpec spec;
  spec.score = info.name;
  spec.info = head.score;
  for (const ParamInfo& param : params) spec.params[std::string(param.name)] = param.fallback;
  if (!info.plugin_sha256.empty()) spec.params[kPluginSha256] = info.plugin_sha256;
  std::vector<PartSpec> given;
  if (head.part != nullptr) given.push_back(new_part(*head.part));
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const KeyValue pair = key_value(text, pieces[i]);
    // Of a part that stands for its score too, keys go to whichever has them.
    if (head.part != nullptr && param_named(head.part->params, pair.key) != nullptr) {
      read_param(text, head.part->name, head.part->params, pair, given.front());
    } else {
      read_param(text, info.name, params, pair, spec);
    }
  }
  for (std::size_t i = 1; i < texts.size(); ++i) {
    const auto part_pieces = split(texts[i], ':');
    const PartInfo& part_info = known_part(text, part_pieces.front());
    PartSpec part = new_part(part_info);
    for (std::size_t k = 1; k < part_pieces.size(); ++k)
      read_param(text, part_info.name, part_info.params, key_value(text, part_pieces[k]), part);
    add_part(text, std::move(part), given);
  }
  if (!info.own_part.empty() && std::none_of(given.begin(), given.end(), [](const PartSpec& part) {
        return find_part(part.name)->kind == PartInfo::Kind::kLayerBudgets;
      })) {
    spec.implied_part = info.own_part;
  }
  for (const PartSpec& part : given) {
    if (!info.own_part.empty() && part.name == info.own_part) {
      throw UsageError(prefix(text) + std::string(info.name) + " has layer budgets of its own; " +
                       "leave \"+" + part.name + "\" out");
    }
  }
  spec.parts = in_registry_order(std::move(given));
  read_modes(spec);
  check_only_with(text, params, spec);
  for (const PartSpec& part : spec.parts) check_only_with(text, find_part(part.name)->params, part);
  check_combinations(prefix(text), info, spec);
  spec.canonical = canonical_text(spec, params);
  return spec;
}

std::vector<PolicySpec> parse_policy_list(std::string_view comma_separated) {
  return parse_policy_list(comma_separated, PolicyCatalog());
}

std::vector<PolicySpec> parse_policy_list(std::string_view comma_separated,
                                          const PolicyCatalog& catalog) {
  std::vector<PolicySpec> specs;
  for (const std::string_view text : split(comma_separated, ',')) {
    PolicySpec spec = parse_policy(text, catalog);
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
