#include "metrics/oracle/assignment.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace kvscope {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
constexpr int kNone = -1;

// Reduced costs cost(r, j) - u(r) - v(j) stay >= 0, and = 0 where r owns j, so that a shortest path
// in reduced costs from a row to a free column is the cheapest way to let that row own one more.
class Assignment {
 public:
  Assignment(std::span<const AssignmentRow> rows, int n_columns)
      : rows_(rows),
        n_columns_(n_columns),
        row_potential_(rows.size(), 0.0),
        column_potential_(std::size_t(n_columns), 0.0),
        owner_(std::size_t(n_columns), kNone),
        distance_(std::size_t(n_columns)),
        via_row_(std::size_t(n_columns)),
        is_settled_(std::size_t(n_columns)),
        row_distance_(rows.size()),
        entered_by_(rows.size()) {}

  void add_column_to(int source) {
    std::fill(distance_.begin(), distance_.end(), kUnreached);
    std::fill(is_settled_.begin(), is_settled_.end(), char{0});
    scanned_.clear();
    scan(source, 0.0, kNone);
    int column = nearest();
    while (owner_[column] != kNone) {
      scan(owner_[column], distance_[column], column);
      column = nearest();
    }
    raise_potentials(distance_[column]);
    for (int row = via_row_[column];; row = via_row_[column]) {
      owner_[column] = row;
      column = entered_by_[row];
      if (column == kNone) break;
    }
  }

  std::vector<int> owners() && { return std::move(owner_); }

 private:
  // Everything reachable through `row`. The row's own columns are at its distance: nothing new lies
  // behind them.
  void scan(int row, double row_distance, int entered_by) {
    scanned_.push_back(row);
    row_distance_[row] = row_distance;
    entered_by_[row] = entered_by;
    const std::span<const double> cost = rows_[row].cost;
    const double offset = row_distance - row_potential_[row];
    for (int j = 0; j < int(cost.size()); ++j) {
      if (owner_[j] == row) {
        is_settled_[j] = 1;
        distance_[j] = row_distance;
        continue;
      }
      const double distance = offset + cost[j] - column_potential_[j];
      if (!is_settled_[j] && distance < distance_[j]) {
        distance_[j] = distance;
        via_row_[j] = row;
      }
    }
  }

  // Among equally near columns a free one, which ends the search; then the first.
  int nearest() const {
    int best = kNone;
    for (int j = 0; j < n_columns_; ++j) {
      if (is_settled_[j] || distance_[j] == kUnreached) continue;
      const bool is_nearer =
          best == kNone || distance_[j] < distance_[best] ||
          (distance_[j] == distance_[best] && owner_[best] != kNone && owner_[j] == kNone);
      if (is_nearer) best = j;
    }
    if (best == kNone) throw std::invalid_argument("assignment: more is taken than is allowed");
    return best;
  }

  void raise_potentials(double path_length) {
    for (const int row : scanned_) row_potential_[row] += path_length - row_distance_[row];
    for (int j = 0; j < n_columns_; ++j) {
      if (is_settled_[j]) column_potential_[j] -= path_length - distance_[j];
    }
  }

  std::span<const AssignmentRow> rows_;
  int n_columns_;
  std::vector<double> row_potential_;     // [n_rows] u
  std::vector<double> column_potential_;  // [n_columns] v <= 0
  std::vector<int> owner_;                // [n_columns] row, or kNone
  // Of the search under way:
  std::vector<double> distance_;      // [n_columns] from the source row
  std::vector<int> via_row_;          // [n_columns] the row before it on the path
  std::vector<char> is_settled_;      // [n_columns] owned by a scanned row
  std::vector<double> row_distance_;  // [n_rows]
  std::vector<int> entered_by_;       // [n_rows] the row's own column on the path
  std::vector<int> scanned_;          // rows
};

}  // namespace

std::vector<int> cheapest_assignment(std::span<const AssignmentRow> rows, int n_columns) {
  for (const AssignmentRow& row : rows) {
    if (row.cost.size() > std::size_t(n_columns)) {
      throw std::invalid_argument("assignment: a row has more costs than there are columns");
    }
  }
  Assignment assignment(rows, n_columns);
  for (int row = 0; row < int(rows.size()); ++row) {
    for (int n = 0; n < rows[row].supply; ++n) assignment.add_column_to(row);
  }
  return std::move(assignment).owners();
}

}  // namespace kvscope
