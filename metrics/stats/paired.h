// Clustered paired t: is the mean difference of two arms on the same items different from zero, or
// above a margin?
//
//   d = b - a, mean over all pairs;  r_g = sum over cluster g of (d - mean)
//   se^2 = G/(G-1) * sum_g r_g^2 / n^2,   t = mean / se with G - 1 degrees of freedom
//
// Liang and Zeger (Biometrika 73, 1986) for a mean alone; as recommended for evaluations by Miller
// (arXiv:2411.00640). Ignoring the clusters of correlated items more than doubles the false alarms.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "metrics/stats/pair.h"

namespace kvscope {

// What needs a standard error; there is none below two clusters.
struct PairedInference {
  double se_clustered = 0;
  int df = 0;                           // clusters - 1
  std::optional<double> t;              // nothing when se_clustered is 0
  double p_two_sided = 1;               // H0: mean = 0
  double p_less = 1;                    // small if the mean is below 0
  double p_greater = 1;                 // small if the mean is above 0
  Interval ci95;                        // two-sided
  double lower_one_sided_95 = 0;        // the mean is above this with 95 % confidence
  double upper_one_sided_95 = 0;        // the mean is below this with 95 % confidence
  std::optional<double> p_noninferior;  // H0: mean <= -margin; only where a margin was given
};

struct PairedT {
  std::int64_t n = 0;
  std::int64_t clusters = 0;
  bool identical = false;                    // n > 0 and every difference is exactly 0
  std::optional<double> mean_difference;     // nothing without pairs
  std::optional<PairedInference> inference;  // nothing below two clusters
  std::optional<double>
      se_unclustered_paired;  // as if pairs were independent; nothing below two pairs
};

// All pairs must be finite. With a standard error of exactly 0 the p-values are the limits of t ->
// ±infinity: 0 or 1, the interval is the mean itself; if the mean is 0 too, every p is 1 except
// p_noninferior, which is 0 for a margin above 0.
PairedT paired_t(std::span<const Pair> pairs, std::optional<double> margin);

// Smallest true difference that a one-sided test at 5 % finds with 80 % power: (z.95 + z.80) * se.
double minimum_detectable_effect(double standard_error);

}  // namespace kvscope
