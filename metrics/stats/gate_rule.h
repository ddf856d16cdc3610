// Is an arm worse than its baseline by more than a margin? Three answers that exclude each other,
// and a fourth where the data cannot say anything (observability.md 4.3).
//
//   pass          the lower one-sided bound of the mean difference is above -margin (non-inferior);
//                 with `equivalence` the upper one is below +margin, too. All differences 0: pass.
//   fail          the difference is below 0 at alpha, after correction over the family of checks,
//                 and its estimate is below -margin
//   inconclusive  neither
//   error         too few pairs or clusters, or numbers that are not finite
//
// Differences are oriented so that + is better. Their mean has the clustered standard error of
// paired.h with clusters - 1 degrees of freedom.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "metrics/stats/mcnemar.h"
#include "metrics/stats/pair.h"

namespace kvscope {

enum class Verdict : std::uint8_t { kPass, kFail, kInconclusive, kError };
std::string_view name_of(Verdict verdict);  // pass, fail, inconclusive, error

struct GateRule {
  double margin = 0;    // >= 0, in the unit of the values: the largest loss that counts as none
  double alpha = 0.01;  // of each one-sided statement; the family's, for fail
  int min_pairs = 30;
  int min_clusters = 10;
  bool equivalence = false;
  // p_sign_flip, detectable_effect and clusters_to_decide: they decide nothing and take most of the
  // time.
  bool outlook = true;
};

struct GateFigures {
  std::int64_t n = 0;
  std::int64_t clusters = 0;
  std::int64_t nonfinite_pairs = 0;
  bool identical = false;  // n > 0, all differences exactly 0

  // Nothing of what follows below two clusters. + is better.
  struct Inference {
    double delta = 0;
    double se = 0;
    int df = 0;
    double lower = 0;                   // delta is above this with confidence 1 - alpha
    double upper = 0;                   // delta is below this with confidence 1 - alpha
    double p_worse = 1;                 // small if delta < 0
    double p_noninferior = 1;           // small if delta > -margin
    double p_equivalent = 1;            // small if |delta| < margin: the larger of two (TOST)
    std::optional<double> p_sign_flip;  // small if delta < 0; whole clusters flip
    double detectable_effect = 0;       // found with 80 % power at alpha
    std::optional<std::int64_t> clusters_to_decide;  // of this kind, if delta is what it seems
  };
  std::optional<Inference> inference;
  std::optional<McNemar> mcnemar;  // 0/1 values; takes pairs for independent
};

// What a difference with its standard error says (df >= 1); p_sign_flip and clusters_to_decide are
// left out.
GateFigures::Inference gate_inference(double delta, double se, int df, const GateRule& rule);

// d = b - a of each pair, + better: for a metric that is better lower, swap a and b before.
GateFigures gate_figures(std::span<const Pair> pairs, const GateRule& rule);

// p_worse_adjusted: Inference::p_worse corrected over all checks that are decided together (Holm).
Verdict decide(const GateFigures& figures, double p_worse_adjusted, const GateRule& rule);

// Why the data can say nothing; empty if they can.
std::string_view why_not_evaluable(const GateFigures& figures, const GateRule& rule);

}  // namespace kvscope
