// The statistics of two arms on the same items, as the commands print them.
#pragma once

#include "harness/report/json.h"
#include "metrics/stats/pairs_report.h"

namespace kvscope {

// n, clusters, mean_difference, se_clustered, df, t, p_two_sided, p_less, p_greater, ci95,
// lower_one_sided_95, upper_one_sided_95, p_noninferior, se_unclustered_paired,
// mde_one_sided_05_power_80, welch_unpaired, identical, nonfinite_pairs, and where they exist
// sign_flip_exact, mcnemar_exact, wilson95_a, wilson95_b. null where a number is not defined.
Json paired_summary_json(const PairedSummary& summary);

}  // namespace kvscope
