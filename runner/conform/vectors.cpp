#include "runner/conform/vectors.h"

#include <cmath>
#include <exception>
#include <stdexcept>

#include "runner/conform/vector_tools.h"
#include "runner/conform/vectors_document.h"

namespace kvscope::conform {
namespace {

constexpr double kTolerance = 1e-6;

std::vector<VectorCase> all_cases() {
  std::vector<VectorCase> cases;
  for (const auto table : {attention_vectors(), budget_vectors(), content_vectors()})
    cases.insert(cases.end(), table.begin(), table.end());
  return cases;
}

void copy_rows(const Json& input, const char* name, std::vector<float>& out) {
  if (!input.contains(name)) return;
  for (const Json& row : input.at(name)) {
    for (const Json& x : row) out.push_back(x.get<float>());
  }
}

}  // namespace

const Json& vectors_document() {
  static const Json parsed = Json::parse(kPolicyVectors);
  return parsed;
}

const Json& vector_named(std::string_view id) {
  for (const Json& vector : vectors_document().at("vectors")) {
    if (vector.at("id") == id) return vector;
  }
  throw std::runtime_error("policy-vectors.json has no vector " + std::string(id));
}

SyntheticLayer layer_of(const Json& input, int n_kv_heads) {
  std::vector<Json> heads;
  if (input.contains("exp_logits_inline")) {
    heads.push_back(input.at("exp_logits_inline"));
  } else {
    const Json& names = input.at("exp_logits");
    for (const Json& name : names.is_array() ? names : Json::array({names}))
      heads.push_back(vectors_document().at("base").at(name.get<std::string>().substr(5)));
  }
  SyntheticLayer layer;
  layer.n_kv_heads = n_kv_heads;
  layer.table = AttentionTable(static_cast<int>(heads.size()), static_cast<int>(heads[0].size()));
  for (int h = 0; h < layer.table.n_heads; ++h) {
    for (int t = 0; t < layer.table.n_tokens; ++t) {
      for (int i = 0; i <= t; ++i) layer.table.at(h, t, i) = heads[h][t][i].get<double>();
    }
  }
  return layer;
}

SyntheticLayer layer_of_contents(const Json& input) {
  SyntheticLayer layer;
  copy_rows(input, "keys", layer.keys);
  copy_rows(input, "values", layer.values);
  copy_rows(input, "prerope_queries", layer.queries);
  layer.head_dim = static_cast<int>(input.at("keys")[0].size());
  layer.table = AttentionTable(1, static_cast<int>(input.at("keys").size()));
  layer.inverse_frequency.assign(layer.head_dim / 2, 0.0F);
  return layer;
}

std::string unless_equal(const std::string& what, const Positions& got, const Json& wanted) {
  const auto list = wanted.get<Positions>();
  if (got == list) return {};
  return what + " is " + text_of(got) + " instead of " + text_of(list);
}

std::string unless_near(const std::string& what, double got, const Json& wanted) {
  const double value = wanted.is_object() ? wanted.at("val").get<double>() : wanted.get<double>();
  if (std::abs(got - value) <= kTolerance) return {};
  return what + " is " + std::to_string(got) + " instead of " + std::to_string(value);
}

std::vector<VectorResult> run_vectors(std::string_view policy, const MakePolicy& make) {
  std::vector<VectorResult> results;
  for (const VectorCase& one : all_cases()) {
    if (one.policy != policy) continue;
    results.push_back({std::string(one.id), {}});
    try {
      results.back().failure = one.run(vector_named(one.id), std::string(one.text), make);
    } catch (const std::exception& error) {
      results.back().failure = std::string("threw: ") + error.what();
    }
  }
  return results;
}

std::vector<std::string_view> covered_vectors() {
  std::vector<std::string_view> ids;
  for (const VectorCase& one : all_cases()) ids.push_back(one.id);
  return ids;
}

std::vector<std::string> all_vectors() {
  std::vector<std::string> ids;
  for (const Json& vector : vectors_document().at("vectors")) ids.push_back(vector.at("id"));
  return ids;
}

}  // namespace kvscope::conform
