#include "metrics/probes/sampled_facts.h"

#include <boost/math/distributions/students_t.hpp>

namespace kvscope {

void SampledFacts::merge(const SampledFacts& other) {
  for (std::size_t i = 0; i < step_means.size(); ++i) {
    step_means[i].insert(step_means[i].end(), other.step_means[i].begin(),
                         other.step_means[i].end());
  }
  burst_rebound_mass.merge(other.burst_rebound_mass);
  n_bursts += other.n_bursts;
}

std::optional<double> SampledFacts::half_interval(SampledMetric metric) const {
  RunningStat steps;
  for (const double mean : step_means[metric]) steps.add(mean);
  const std::optional<double> error = steps.standard_error();
  if (!error) return std::nullopt;
  const boost::math::students_t distribution(double(steps.n - 1));
  return boost::math::quantile(distribution, 0.975) * *error;
}

}  // namespace kvscope
