// Adjusted p-values for families of tests: compare the adjusted value with the level wanted for the
// whole family.
#pragma once

#include <span>
#include <vector>

namespace kvscope {

// Holm (Scand. J. Statist. 6, 1979): family-wise error rate, any dependence. p in [0, 1], any
// order; answers in that order.
std::vector<double> holm_adjusted(std::span<const double> p);

// Benjamini and Hochberg (JRSS B 57, 1995): false discovery rate, independent or positively
// dependent tests.
std::vector<double> benjamini_hochberg_adjusted(std::span<const double> p);

}  // namespace kvscope
