#include "metrics/stats/welch.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "metrics/stats/running_stat.h"

namespace kvscope {

std::optional<Welch> welch_unpaired(std::span<const Pair> pairs) {
  RunningStat a;
  RunningStat b;
  for (const Pair& pair : pairs) {
    a.add(pair.a);
    b.add(pair.b);
  }
  if (a.n < 2 || b.n < 2) return std::nullopt;
  const double a_error = *a.variance() / double(a.n);  // squared standard errors
  const double b_error = *b.variance() / double(b.n);
  const double error = a_error + b_error;
  if (error == 0) return std::nullopt;
  Welch result;
  result.t = (b.mean - a.mean) / std::sqrt(error);
  // Shares of the error instead of their squares: tiny variances must not underflow.
  const double a_share = a_error / error;
  const double b_share = b_error / error;
  result.df = 1 / (a_share * a_share / double(a.n - 1) + b_share * b_share / double(b.n - 1));
  const boost::math::students_t distribution(result.df);
  result.p_two_sided = 2 * boost::math::cdf(distribution, -std::abs(result.t));
  return result;
}

}  // namespace kvscope
