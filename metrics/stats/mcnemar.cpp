#include "metrics/stats/mcnemar.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>

namespace kvscope {

McNemar mcnemar_exact(std::int64_t gained, std::int64_t lost) {
  McNemar result{.gained = gained, .lost = lost};
  if (gained + lost == 0) return result;
  const boost::math::binomial distribution(double(gained + lost), 0.5);
  result.p_less = boost::math::cdf(distribution, double(gained));
  const double tail = boost::math::cdf(distribution, double(std::min(gained, lost)));
  result.p_two_sided = std::min(1.0, 2 * tail);
  return result;
}

}  // namespace kvscope
