// Notices that a head's attention has changed, from what every row gives away (policies.md 8.8):
// its entropy moves, or the log-sum-exp of the visible set drops, by more than 3 standard
// deviations of their moving averages.
#pragma once

namespace kvscope {

// Exponential moving average and variance, as if the last `rows` rows counted.
class MovingMoments {
 public:
  explicit MovingMoments(int rows) : share_(2.0 / (rows + 1)) {}
  void add(double value);
  double mean() const { return mean_; }
  double deviation() const;  // 0 before the second value

 private:
  double share_;
  double mean_ = 0;
  double variance_ = 0;
  bool is_empty_ = true;
};

class RowAlarm {
 public:
  // One row's means over the group's query heads. True: an alarm. Rows that are not finite are
  // passed over; the first kQuietRows only teach.
  bool add(double entropy_nats, double lse_visible);

  static constexpr int kMemoryRows = 32;
  static constexpr int kQuietRows = 16;
  static constexpr double kDeviations = 3;

 private:
  MovingMoments entropy_{kMemoryRows};
  MovingMoments lse_{kMemoryRows};
  int n_rows_ = 0;
};

}  // namespace kvscope
