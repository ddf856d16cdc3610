// A Prometheus registry in which only the families of the catalogue exist and bad values cannot
// enter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace kvscope {

class MetricBook {
 public:
  using Labels = std::map<std::string, std::string>;

  explicit MetricBook(std::size_t max_series = 10'000);

  // Unknown family or wrong type: std::logic_error. A value that is not finite, or a negative
  // increment, is dropped and counted in kvscope_nonfinite_values_total{probe=FAMILY}: one NaN
  // would spoil a histogram's sum for ever. Above max_series, no new series appear.
  void set(std::string_view family, const Labels& labels, double value);
  void set_max(std::string_view family, const Labels& labels, double value);  // keeps the larger
  void add(std::string_view family, const Labels& labels, double increment);
  void observe(std::string_view family, const Labels& labels, double value);
  // counts: [buckets + 1] observations by bucket, not cumulative; sum: of all values.
  void observe_many(std::string_view family, const Labels& labels,
                    std::span<const std::int64_t> counts, double sum);

  std::size_t refused_series() const { return refused_; }
  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

  // Exposition format 0.0.4; families in order of the catalogue, series sorted by labels, so that
  // equal contents give equal text.
  std::string text() const;

 private:
  bool admit(std::string_view family, const Labels& labels, std::size_t n_series);
  // nullptr if the series may not be added.
  prometheus::Histogram* histogram(std::string_view family, const Labels& labels);
  bool usable(std::string_view family, double value);

  std::shared_ptr<prometheus::Registry> registry_;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*, std::less<>> gauges_;
  std::map<std::string, prometheus::Family<prometheus::Counter>*, std::less<>> counters_;
  std::map<std::string, prometheus::Family<prometheus::Histogram>*, std::less<>> histograms_;
  std::unordered_set<std::string> known_;
  std::size_t max_series_;
  std::size_t n_series_ = 0;
  std::size_t refused_ = 0;
};

}  // namespace kvscope
