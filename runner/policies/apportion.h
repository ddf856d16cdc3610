// Whole tokens out of real shares: the largest-remainder rule, and shares under a cap.
#pragma once

#include <span>
#include <vector>

namespace kvscope {

// Integers that sum to `total`, each the floor of its quota or one more; the largest remainders get
// the missing ones, ties the lower index. quotas: [n], none negative, sum = total up to rounding.
std::vector<int> largest_remainder(std::span<const double> quotas, int total);

// Real shares of min(total, n * cap), proportional to `weights` and none above `cap`: what a capped
// entry cannot take goes to the others in proportion. Where all weights that are left are zero the
// rest is shared evenly. weights: [n], none negative.
std::vector<double> capped_shares(std::span<const double> weights, int total, int cap);

}  // namespace kvscope
