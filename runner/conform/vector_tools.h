// Reading policy-vectors.json, for the files that run its vectors.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "runner/conform/request.h"

namespace kvscope::conform {

using Json = nlohmann::json;

const Json& vectors_document();
const Json& vector_named(std::string_view id);  // throws std::runtime_error if there is none

// input: "base.A", ["base.A", "base.B"] (one query head each) or inline rows.
SyntheticLayer layer_of(const Json& input, int n_kv_heads = 1);
// Keys (and values, queries) as given: nothing rotates them.
SyntheticLayer layer_of_contents(const Json& input);

// Empty where both are the same, else "what is {…} instead of {…}".
std::string unless_equal(const std::string& what, const Positions& got, const Json& wanted);
// Of numbers that the document gives as {frac, val} or plain; sums of a few float32 terms below 4
// are within 1e-6 of it.
std::string unless_near(const std::string& what, double got, const Json& wanted);

// One vector as a check of the policies that `make` makes; `text` is the policy it is about.
struct VectorCase {
  std::string_view id;
  std::string_view policy;  // of the registry
  std::string_view text;
  std::string (*run)(const Json& vector, const std::string& text, const MakePolicy& make);
};

std::span<const VectorCase> attention_vectors();
std::span<const VectorCase> budget_vectors();
std::span<const VectorCase> content_vectors();

}  // namespace kvscope::conform
