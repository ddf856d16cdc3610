// How many clusters does a one-sided paired t need to see an effect, and which effect does it see?
// Power by the noncentral t distribution (Johnson, Kotz, Balakrishnan 1995, chapter 31), so it
// holds for few clusters too, where the normal approximation promises too much.
#pragma once

#include <cstdint>
#include <optional>

namespace kvscope {

// Probability that the test at `alpha` with `df` degrees of freedom rejects when the true mean is
// `effect_in_se` standard errors away from the null value, on the side it looks at. In (0, 1).
double one_sided_power(double effect_in_se, int df, double alpha);

// Smallest true effect, in standard errors, that is found with probability `power`. df >= 1.
double detectable_effect_in_se(int df, double alpha, double power);

// Clusters needed to find `effect` (> 0), where `clusters` (>= 2) of the same kind gave the
// standard error `se`: the standard error is taken to shrink with the root of their number. Nothing
// beyond 10^9. se = 0: 2.
std::optional<std::int64_t> clusters_needed(double effect, double se, std::int64_t clusters,
                                            double alpha, double power);

}  // namespace kvscope
