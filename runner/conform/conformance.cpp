#include "runner/conform/conformance.h"

#include <algorithm>
#include <exception>
#include <span>

#include "runner/conform/properties.h"
#include "runner/conform/vectors.h"

namespace kvscope::conform {
namespace {

// One case: the policies take turns, and each that can is in stream every second time.
bool run_case(const Property& property, const std::vector<const Subject*>& subjects, Shape shape,
              int i, PropertyResult& result) {
  const auto n = static_cast<int>(subjects.size());
  const Subject& subject = *subjects[i % n];
  const bool in_stream = subject.traits.acts_in_stream && (i / n) % 2 == 1;
  const int n_layers = subject.traits.needs_layers ? 3 : 1;
  const RandomCase c = random_case(shape, static_cast<std::uint64_t>(i), n_layers);
  ++result.cases;
  try {
    result.failure = property.check({subject, c, in_stream});
  } catch (const std::exception& error) {
    result.failure = std::string("threw: ") + error.what();
  }
  if (result.failure.empty()) return true;
  result.text = subject.text;
  result.shape = shape;
  result.seed = c.seed;
  result.in_stream = in_stream;
  return false;
}

PropertyResult check_property(const Property& property, const std::vector<const Subject*>& subjects,
                              int cases) {
  PropertyResult result;
  result.name = property.name;
  result.says = property.says;
  for (const Shape shape : kShapes) {
    for (int i = 0; i < cases; ++i) {
      if (!run_case(property, subjects, shape, i, result)) return result;
    }
  }
  return result;
}

std::vector<const Subject*> those_of(const Property& property, std::span<const Subject> subjects) {
  std::vector<const Subject*> applicable;
  for (const Subject& subject : subjects) {
    if (property.applies(subject)) applicable.push_back(&subject);
  }
  return applicable;
}

std::vector<PropertyResult> check_all(std::span<const Property> table,
                                      std::span<const Subject> subjects, int cases,
                                      bool until_failure) {
  std::vector<PropertyResult> results;
  for (const Property& property : table) {
    const auto applicable = those_of(property, subjects);
    if (applicable.empty()) continue;
    results.push_back(check_property(property, applicable, cases));
    if (until_failure && !results.back().failure.empty()) break;
  }
  return results;
}

std::vector<Subject> variants(const PolicyInfo& info, const MakePolicy& make) {
  std::vector<Subject> subjects;
  for (const std::string& text : variants_of(info))
    subjects.push_back(subject_of(parse_policy(text), make));
  return subjects;
}

std::string found_in(const std::vector<PropertyResult>& results) {
  if (results.empty() || results.back().failure.empty()) return {};
  return "property " + results.back().name + " (" + results.back().text + ", " +
         std::string(name_of(results.back().shape)) + ", seed " +
         std::to_string(results.back().seed) + ")";
}

}  // namespace

bool Conformance::conforms() const {
  const auto fails = [](const auto& result) { return !result.failure.empty(); };
  return std::none_of(vectors.begin(), vectors.end(), fails) &&
         std::none_of(properties.begin(), properties.end(), fails);
}

Conformance check(const Subject& subject, const CheckOptions& options) {
  return {subject.text, {}, check_all(properties(), std::span(&subject, 1), options.cases, false)};
}

Conformance check(const PolicyInfo& info, const CheckOptions& options, const MakePolicy& make) {
  const std::vector<Subject> subjects = variants(info, make);
  Conformance result{std::string(info.name), run_vectors(info.name, make),
                     check_all(properties(), subjects, options.cases, false)};
  // Relations choose their own parameters.
  const auto between = check_all(relations(), std::span(subjects).first(1), options.cases, false);
  result.properties.insert(result.properties.end(), between.begin(), between.end());
  return result;
}

Conformance check(const PolicySpec& spec, const CheckOptions& options) {
  const bool built_in = find_policy(spec.score) != nullptr;
  if (built_in && spec.canonical == spec.score) return check(*find_policy(spec.score), options);
  return check(subject_of(spec), options);
}

std::string first_failure(const PolicyInfo& info, const CheckOptions& options,
                          const MakePolicy& make) {
  for (const VectorResult& vector : run_vectors(info.name, make)) {
    if (!vector.failure.empty()) return "vector " + vector.id;
  }
  const std::vector<Subject> subjects = variants(info, make);
  auto found = found_in(check_all(relations(), std::span(subjects).first(1), options.cases, true));
  if (found.empty()) found = found_in(check_all(properties(), subjects, options.cases, true));
  return found;
}

}  // namespace kvscope::conform
