#include "metrics/probes/row_alarm.h"

#include <cmath>

namespace kvscope {

void MovingMoments::add(double value) {
  if (is_empty_) {
    mean_ = value;
    is_empty_ = false;
    return;
  }
  const double difference = value - mean_;
  const double step = share_ * difference;
  mean_ += step;
  variance_ = (1 - share_) * (variance_ + difference * step);
}

double MovingMoments::deviation() const { return std::sqrt(variance_); }

bool RowAlarm::add(double entropy_nats, double lse_visible) {
  if (!std::isfinite(entropy_nats) || !std::isfinite(lse_visible)) return false;
  const bool moved = std::abs(entropy_nats - entropy_.mean()) > kDeviations * entropy_.deviation();
  const bool dropped = lse_.mean() - lse_visible > kDeviations * lse_.deviation();
  entropy_.add(entropy_nats);
  lse_.add(lse_visible);
  return ++n_rows_ > kQuietRows && (moved || dropped);
}

}  // namespace kvscope
