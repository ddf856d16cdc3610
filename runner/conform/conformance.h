// Is a policy what it says it is? Vectors, properties and relations, as one report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/conform/random_cases.h"
#include "runner/conform/subject.h"

namespace kvscope::conform {

struct CheckOptions {
  int cases = 100;  // random cases of each property and shape
};

struct PropertyResult {
  std::string name;
  std::string says;
  int cases = 0;
  // Of the first case in which it does not hold.
  std::string failure;  // empty: it holds
  std::string text;     // the policy
  Shape shape = Shape::kMha;
  std::uint64_t seed = 0;
  bool in_stream = false;
};

struct VectorResult {
  std::string id;
  std::string failure;  // empty: as stated
};

struct Conformance {
  std::string policy;
  std::vector<VectorResult> vectors;  // those that concern it
  std::vector<PropertyResult> properties;
  bool conforms() const;
};

// Properties of one policy, however it is made: what is known of a plug-in is how to make it.
Conformance check(const Subject& subject, const CheckOptions& options = {});
// A policy of the registry: vectors, relations, and properties shared between its variants.
// make: how its policies are made.
Conformance check(const PolicyInfo& info, const CheckOptions& options = {},
                  const MakePolicy& make = fit_policy);
// As written, with these parameters.
Conformance check(const PolicySpec& spec, const CheckOptions& options = {});

// What is first found wrong with policies that are made like this, in the fewest cases; empty:
// nothing. For planted defects.
std::string first_failure(const PolicyInfo& info, const CheckOptions& options,
                          const MakePolicy& make);

}  // namespace kvscope::conform
