#include "harness/gate/gate_suite.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "harness/plan/json_path.h"
#include "harness/report/table.h"
#include "harness/store/metric_info.h"

namespace kvscope {
namespace {

double number_at(const JsonAt& at, double least, double most, const char* what) {
  if (!at.value.is_number()) at.refuse(std::string("must be ") + what);
  const double value = at.value.get<double>();
  if (!(value >= least && value <= most)) at.refuse(std::string("must be ") + what);
  return value;
}

int count_at(const JsonAt& at, int least, const char* what) {
  if (!at.value.is_number_integer() || at.value.get<double>() < least ||
      at.value.get<double>() > 1e9) {
    at.refuse(std::string("must be ") + what);
  }
  return at.value.get<int>();
}

bool flag_at(const JsonAt& at) {
  if (!at.value.is_boolean()) at.refuse("must be true or false");
  return at.value.get<bool>();
}

// A number in the metric's unit, or "2%" of the baseline's mean.
void read_margin(const JsonAt& at, const MetricInfo& metric, GateCheck& check) {
  if (!at.value.is_string()) {
    check.margin = number_at(at, 0, 1e300, "a number of at least 0, or a percentage as \"2%\"");
    return;
  }
  const std::string text = at.text();
  double percent = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || std::string_view(end) != "%" || !(percent >= 0)) {
    at.refuse("must be a number of at least 0, or a percentage as \"2%\"");
  }
  if (metric.unit != "bytes") {
    at.refuse("a percentage is for metrics in bytes; " + std::string(metric.name) + " is in " +
              std::string(metric.unit) + ": say how much of that counts as none");
  }
  check.margin = percent / 100;
  check.margin_is_relative = true;
}

void read_baseline(const JsonAt& at, const std::filesystem::path& folder, GateCheck& check) {
  if (at.value.is_string()) {
    check.baseline = at.text();
    return;
  }
  at.require_keys({"db", "arm", "nights"});
  if (at.has("nights")) {
    if (at.has("db") || at.has("arm")) at.refuse("\"nights\" stands alone");
    check.baseline_nights = count_at(at.member("nights"), 1, "a whole number from 1");
    return;
  }
  if (!at.has("db") || !at.has("arm")) {
    at.refuse("is an arm, {\"db\": FILE, \"arm\": ARM} or {\"nights\": N}");
  }
  check.baseline_database = folder / at.member("db").text();
  check.baseline = at.member("arm").text();
}

std::string default_name(const GateCheck& check) {
  std::string name = check.candidate;
  if (check.kind == GateCheck::Kind::kDeterministic) return name + " deterministic";
  name = (check.task.empty() ? "" : check.task + " ") + check.metric + " " + name;
  if (check.min) return name + " at least " + format_significant(*check.min, 6);
  if (check.max) return name + " at most " + format_significant(*check.max, 6);
  if (check.baseline_nights > 0) return name + " vs nights before";
  return name + " vs " + check.baseline;
}

GateCheck read_check(const JsonAt& at, const std::filesystem::path& folder) {
  at.require_keys({"name", "candidate", "baseline", "task", "metric", "margin", "equivalence",
                   "min", "max", "deterministic", "warn_only"});
  GateCheck check;
  if (!at.has("candidate")) at.refuse("needs a \"candidate\": the arm that is checked");
  check.candidate = at.member("candidate").text();
  if (at.has("task")) check.task = at.member("task").text();
  if (at.has("warn_only")) check.warn_only = flag_at(at.member("warn_only"));

  const auto only = [&](std::initializer_list<const char*> foreign) {
    for (const char* key : foreign) {
      if (at.has(key)) at.member(key).refuse("does not go with this kind of check");
    }
  };
  if (at.has("deterministic")) {
    if (!flag_at(at.member("deterministic"))) at.refuse("\"deterministic\" is true or left out");
    only({"baseline", "metric", "margin", "equivalence", "min", "max"});
    check.kind = GateCheck::Kind::kDeterministic;
  } else {
    if (!at.has("metric")) at.refuse("needs a \"metric\"");
    check.metric = at.member("metric").text();
    const MetricInfo* metric = find_metric(check.metric);
    if (metric == nullptr) {
      at.member("metric").refuse("no metric '" + check.metric +
                                 "'; `kvscope list metrics` shows all");
    }
    if (at.has("min") || at.has("max")) {
      only({"baseline", "margin", "equivalence"});
      if (at.has("min") && at.has("max")) at.refuse("\"min\" or \"max\", as two checks");
      check.kind = GateCheck::Kind::kBound;
      const char* key = at.has("min") ? "min" : "max";
      (at.has("min") ? check.min : check.max) =
          number_at(at.member(key), -1e300, 1e300, "a number");
    } else {
      if (!at.has("margin")) at.refuse("needs a \"margin\": the largest loss that counts as none");
      read_margin(at.member("margin"), *metric, check);
      if (at.has("baseline")) read_baseline(at.member("baseline"), folder, check);
      if (at.has("equivalence")) check.equivalence = flag_at(at.member("equivalence"));
      if (metric->better == "none" && !check.equivalence) {
        at.refuse(check.metric + " is neither better high nor low: add \"equivalence\": true");
      }
    }
  }
  check.name = at.has("name") ? at.member("name").text() : default_name(check);
  return check;
}

}  // namespace

GateSuite parse_gate_suite(const nlohmann::json& document, const std::string& file) {
  const JsonAt at{document, "gate " + file, ""};
  at.require_object();
  at.require_keys(
      {"name", "alpha", "min_pairs", "min_clusters", "max_error_rate", "sequential", "checks"});
  GateSuite suite;
  if (at.has("name")) suite.name = at.member("name").text();
  if (at.has("alpha")) {
    suite.alpha = number_at(at.member("alpha"), 1e-9, 0.5, "a number above 0 and up to 0.5");
  }
  if (at.has("min_pairs")) {
    suite.min_pairs = count_at(at.member("min_pairs"), 2, "a whole number from 2");
  }
  if (at.has("min_clusters")) {
    suite.min_clusters = count_at(at.member("min_clusters"), 2, "a whole number from 2");
  }
  if (at.has("max_error_rate")) {
    suite.max_error_rate = number_at(at.member("max_error_rate"), 0, 1, "a ratio from 0 to 1");
  }
  if (at.has("sequential")) suite.sequential = flag_at(at.member("sequential"));

  if (!at.has("checks")) at.refuse("needs \"checks\": what is to be decided");
  const JsonAt checks = at.member("checks");
  checks.require_array();
  if (checks.value.empty()) checks.refuse("is empty: a gate that checks nothing would always pass");
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::set<std::string> names;
  for (std::size_t i = 0; i < checks.value.size(); ++i) {
    const JsonAt element = checks.element(i);
    suite.checks.push_back(read_check(element, folder));
    if (!names.insert(suite.checks.back().name).second) {
      element.refuse("a second check named \"" + suite.checks.back().name + "\"");
    }
  }
  return suite;
}

GateSuite read_gate_suite(const std::filesystem::path& file) {
  return parse_gate_suite(read_json_file(file, "gate " + file.string()), file.string());
}

}  // namespace kvscope
