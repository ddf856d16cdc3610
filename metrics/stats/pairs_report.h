// Everything the program says about two arms on the same items, in one call: for the `stats` and
// `compare` commands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "metrics/stats/mcnemar.h"
#include "metrics/stats/pair.h"
#include "metrics/stats/paired.h"
#include "metrics/stats/sign_flip.h"
#include "metrics/stats/welch.h"

namespace kvscope {

inline constexpr int kMaxReportedSignFlipClusters = 14;

// No member is ever NaN or infinite: what is not defined is absent.
struct PairedSummary {
  PairedT paired;                                   // d = b - a
  std::optional<double> mde_one_sided_05_power_80;  // nothing below two clusters
  std::optional<Welch> welch_unpaired;              // welch.h
  std::optional<SignFlip> sign_flip_exact;          // up to kMaxReportedSignFlipClusters clusters
  std::optional<McNemar> mcnemar_exact;             // where both columns are 0 or 1 throughout
  std::optional<Interval> wilson95_a;               // likewise
  std::optional<Interval> wilson95_b;               // likewise
  // Pairs with a NaN, an infinity or a value beyond 1e150: left out of everything above. A gate
  // must not pass over them.
  std::int64_t nonfinite_pairs = 0;
};

// Finite, and small enough for sums of squares.
bool is_usable_pair(const Pair& pair);

// margin: largest loss that still counts as no loss, >= 0, in the unit of a and b.
PairedSummary summarise_pairs(std::span<const Pair> pairs, std::optional<double> margin);

}  // namespace kvscope
