// The distribution of a stream of numbers as integer counts in fixed bins: merged in any order, the
// counts are the same, so that quantiles depend neither on threads nor on which run finished first.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kvscope {

enum class SketchScale {
  // Ratios and their differences, in [-1, 1]: fixed edges, dense near 0 and 1, at most 0.025 apart;
  // exact 0 and 1 have bins of their own. A quantile is off by at most half a bin.
  kRatio,
  // What is positive and unbounded: 64 bins an octave, as DDSketch (Masson et al., VLDB 2019) with
  // its logarithm interpolated linearly within an octave. A quantile is off by at most 1/128 of
  // itself; below 2^-20 and above 2^40 bins are open.
  kLog,
};
std::string_view name_of(SketchScale scale);
std::optional<SketchScale> parse_sketch_scale(std::string_view name);

class Sketch {
 public:
  explicit Sketch(SketchScale scale = SketchScale::kRatio) : scale_(scale) {}

  SketchScale scale() const { return scale_; }
  std::int64_t n() const { return n_; }
  double min() const { return min_; }  // 0 while n() == 0; exact, as max()
  double max() const { return max_; }

  void add(double value);           // finite
  void merge(const Sketch& other);  // std::invalid_argument where scales differ

  // Nearest rank: the value that ⌈q·n⌉ of the values do not exceed, 0 < q <= 1. q = 1 is max().
  // Nothing of nothing.
  std::optional<double> quantile(double q) const;

  // Non-empty bins in ascending order, and a sketch of such bins again; counts > 0, min and max as
  // they were. Throws std::invalid_argument for bins that no sketch has.
  std::vector<std::pair<std::int32_t, std::int64_t>> bins() const;
  static Sketch of_bins(SketchScale scale, double min, double max,
                        const std::vector<std::pair<std::int32_t, std::int64_t>>& bins);

  std::int64_t bytes() const { return std::int64_t(counts_.capacity() * sizeof(counts_[0])); }

  bool operator==(const Sketch& other) const;  // the same distribution

 private:
  void add_count(std::int32_t bin, std::int64_t count);

  SketchScale scale_;
  std::int32_t first_bin_ = 0;        // of counts_[0]
  std::vector<std::int64_t> counts_;  // [bins from the smallest used to the largest]
  std::int64_t n_ = 0;
  double min_ = 0;
  double max_ = 0;
};

}  // namespace kvscope
