// What a gate checks, as a JSON document. Keys, all but `checks` optional:
//
//   name          of the gate; its history in the database goes by it (default "gate")
//   alpha         0.01: of every one-sided statement; of the whole family, for fail
//   min_pairs     30
//   min_clusters  10
//   max_error_rate   0.05: larger shares of failed samples make a check an error
//   sequential    false: true makes evidence that grew over nights a fail, too
//   checks        [CHECK…], each one of
//     {"candidate": ARM, "baseline": BASELINE, "metric": NAME, "margin": NUMBER | "2%", …}
//     {"candidate": ARM, "metric": NAME, "min": NUMBER} or {…, "max": NUMBER}
//     {"candidate": ARM, "deterministic": true}
//   of a CHECK also
//     name        what reports call it
//     task        only there (default: every data set on which both arms have the metric)
//     equivalence true: better by more than the margin is no pass either
//     warn_only   true: its fail does not fail the gate
//
//   ARM is named as in `compare`; BASELINE is an ARM of the same database (default "full"), {"db":
//   FILE, "arm": ARM} of a pinned release, paired by data set and sample, or {"nights": N}: the
//   candidate's difference to full in the N sweeps before, which has other samples and is not
//   paired.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvscope {

struct GateCheck {
  enum class Kind { kCompare, kBound, kDeterministic };
  Kind kind = Kind::kCompare;
  std::string name;
  std::string candidate;
  std::string task;    // empty: all
  std::string metric;  // empty where kDeterministic

  std::string baseline = "full";
  std::filesystem::path baseline_database;  // empty: the candidate's own
  int baseline_nights = 0;                  // > 0: instead of an arm

  double margin = 0;                // of kCompare
  bool margin_is_relative = false;  // of the baseline's mean; bytes only
  bool equivalence = false;

  std::optional<double> min;  // of kBound: one of the two
  std::optional<double> max;
  bool warn_only = false;
};

struct GateSuite {
  std::string name = "gate";
  double alpha = 0.01;
  int min_pairs = 30;
  int min_clusters = 10;
  double max_error_rate = 0.05;
  bool sequential = false;
  std::vector<GateCheck> checks;
};

// UsageError, one line with file and path: unknown keys or metrics, wrong types or values, a margin
// that is missing or makes no sense, no checks, two checks of one name.
GateSuite parse_gate_suite(const nlohmann::json& document, const std::string& file);
GateSuite read_gate_suite(const std::filesystem::path& file);

}  // namespace kvscope
