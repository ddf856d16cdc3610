// Mean, spread and range of a stream of numbers in constant memory, mergeable: what the store keeps
// of a probe.
#pragma once

#include <cstdint>
#include <optional>

namespace kvscope {

// Welford's update (Technometrics 4, 1962) and the pairwise merge of Chan, Golub and LeVeque
// (1979). Merging is not associative in floating point: whoever wants equal bits merges in a fixed
// order.
struct RunningStat {
  std::int64_t n = 0;          // finite values seen
  double mean = 0;             // 0 while n == 0
  double m2 = 0;               // sum of squared distances from the mean
  double min = 0;              // 0 while n == 0
  double max = 0;              // 0 while n == 0
  std::int64_t nonfinite = 0;  // NaN and infinities: counted, kept out of everything else

  void add(double value);
  void merge(const RunningStat& other);

  // Sample variance m2 / (n - 1); nothing below two values.
  std::optional<double> variance() const;
  // Standard error of the mean as if the values were independent; nothing below two values.
  std::optional<double> standard_error() const;

  bool operator==(const RunningStat&) const = default;
};

}  // namespace kvscope
