#include "tests/runner/policies/random_cases.h"

#include <algorithm>
#include <cmath>

#include "runner/base/splitmix.h"

namespace kvscope::testing {
namespace {

std::vector<std::string> choices_of(const ParamInfo& param) {
  std::string values(param.values.substr(0, param.values.find(" (")));
  std::vector<std::string> choices;
  if (values.find('|') == std::string::npos) return choices;
  for (std::size_t at = 0; at != std::string::npos; at = values.find('|', at)) {
    if (at != 0) ++at;
    choices.push_back(values.substr(at, values.find('|', at) - at));
  }
  return choices;
}

// The grammar refuses some combinations; spec_test.cpp says which.
void add_if_allowed(const std::string& text, std::vector<std::string>& texts) {
  try {
    const PolicySpec spec = parse_policy(text);
    if (std::find(texts.begin(), texts.end(), spec.canonical) == texts.end()) {
      texts.push_back(spec.canonical);
    }
  } catch (const UsageError&) {
  }
}

}  // namespace

std::uint64_t Random::next() { return smix(state_++); }

int Random::between(int low, int high) {
  return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

RandomCase random_case(std::uint64_t seed) {
  Random random(smix(seed));
  const int n_kv_heads = random.between(1, 3);
  const int group = random.between(1, 3);
  const int n_tokens = random.between(2, 20);
  RandomCase result{n_kv_heads, group, random.between(1, n_tokens), random.between(1, n_tokens + 1),
                    AttentionTable(n_kv_heads * group, n_tokens)};
  const bool ties = random.between(0, 2) == 0;
  const double sharpness = 4.0 * random.uniform();
  for (double& weight : result.table.weights) {
    weight = ties ? random.between(1, 3) : std::exp(sharpness * (2.0 * random.uniform() - 1.0));
  }
  return result;
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
  return texts;
}

std::vector<std::string> all_variants() {
  std::vector<std::string> texts;
  for (const PolicyInfo& info : policies()) {
    const auto variants = variants_of(info);
    texts.insert(texts.end(), variants.begin(), variants.end());
  }
  return texts;
}

bool acts_in_stream(const std::string& text) { return parse_policy(text).acts_in_stream(); }

}  // namespace kvscope::testing
