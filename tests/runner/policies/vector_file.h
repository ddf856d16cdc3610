// policy-vectors.json, read once.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvscope::testing {

inline const nlohmann::json& policy_vectors() {
  static const nlohmann::json parsed = nlohmann::json::parse(std::ifstream(
      std::string(KVSCOPE_SOURCE_DIR) + "/tests/runner/policies/policy-vectors.json"));
  return parsed;
}

inline const nlohmann::json& policy_vector(const std::string& id) {
  for (const nlohmann::json& vector : policy_vectors().at("vectors")) {
    if (vector.at("id") == id) return vector;
  }
  throw std::runtime_error("policy-vectors.json has no vector " + id);
}

// Rows of e^logit: "base.A", or inline.
inline std::vector<std::vector<double>> exp_logits(const nlohmann::json& input) {
  if (input.contains("exp_logits_inline")) return input.at("exp_logits_inline");
  return policy_vectors().at("base").at(input.at("exp_logits").get<std::string>().substr(5));
}

}  // namespace kvscope::testing
