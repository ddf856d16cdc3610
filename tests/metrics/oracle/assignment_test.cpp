// Against the textbook Hungarian method with one row for each taken column.
#include "metrics/oracle/assignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

// The least total cost by O(rows² · columns) dual ascent, on rows expanded to unit supply.
double textbook_cost(const std::vector<AssignmentRow>& rows, int n_columns) {
  std::vector<std::span<const double>> unit = {{}};  // from 1
  for (const AssignmentRow& row : rows) unit.insert(unit.end(), row.supply, row.cost);
  const int n = int(unit.size()) - 1;
  constexpr double kForbidden = 1e6;  // far above any total of the tests
  const auto cost = [&](int i, int j) {
    return j <= int(unit[i].size()) ? unit[i][j - 1] : kForbidden;
  };
  std::vector<double> u(n + 1), v(n_columns + 1);
  std::vector<int> owner(n_columns + 1), way(n_columns + 1);
  for (int i = 1; i <= n; ++i) {
    owner[0] = i;
    int j0 = 0;
    std::vector<double> least(n_columns + 1, std::numeric_limits<double>::infinity());
    std::vector<bool> used(n_columns + 1, false);
    do {
      used[j0] = true;
      int next = 0;
      double delta = std::numeric_limits<double>::infinity();
      for (int j = 1; j <= n_columns; ++j) {
        if (used[j]) continue;
        const double reduced = cost(owner[j0], j) - u[owner[j0]] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          way[j] = j0;
        }
        if (least[j] < delta) {
          delta = least[j];
          next = j;
        }
      }
      for (int j = 0; j <= n_columns; ++j) {
        if (used[j]) {
          u[owner[j]] += delta;
          v[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      j0 = next;
    } while (owner[j0] != 0);
    for (; j0 != 0; j0 = way[j0]) owner[j0] = owner[way[j0]];
  }
  double total = 0;
  for (int j = 1; j <= n_columns; ++j) {
    if (owner[j] != 0) total += cost(owner[j], j);
  }
  return total;
}

TEST(Assignment, prefers_the_cheaper_total_to_the_cheaper_first_row) {
  const std::vector<double> first = {1, 2};
  const std::vector<double> second = {1, 9};
  const std::vector<AssignmentRow> rows = {{first}, {second}};
  EXPECT_EQ(cheapest_assignment(rows, 2), (std::vector<int>{1, 0}));
}

TEST(Assignment, a_row_takes_its_whole_supply_and_leaves_the_rest) {
  const std::vector<double> cost = {4, 1, 3, 2};
  const std::vector<AssignmentRow> rows = {{cost, 2}};
  EXPECT_EQ(cheapest_assignment(rows, 5), (std::vector<int>{-1, 0, -1, 0, -1}));
}

TEST(Assignment, equal_costs_take_the_first_columns) {
  const std::vector<double> cost(4, 1.0);
  const std::vector<AssignmentRow> rows = {{cost}, {cost}};
  EXPECT_EQ(cheapest_assignment(rows, 4), (std::vector<int>{0, 1, -1, -1}));
}

TEST(Assignment, says_when_there_is_none) {
  const std::vector<double> cost = {1, 2};
  const std::vector<AssignmentRow> rows = {{cost, 2}, {std::span(cost).first(1)}};
  EXPECT_THROW(cheapest_assignment(rows, 3), std::invalid_argument);
  EXPECT_THROW(cheapest_assignment(rows, 1), std::invalid_argument);
}

TEST(Assignment, costs_as_much_as_the_textbook_method_finds) {
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int n_columns = random.between(2, 60);
    const bool ties = random.between(0, 1) == 0;
    std::vector<std::vector<double>> costs;
    std::vector<AssignmentRow> rows;
    // Row r may use columns 0 … ceiling, and no more is taken than that: an assignment exists.
    int taken = 0;
    for (int ceiling = random.between(1, n_columns); ceiling <= n_columns && taken < ceiling;
         ceiling += random.between(0, 3)) {
      std::vector<double> cost(ceiling, 0.0);
      for (double& c : cost) c = ties ? random.between(0, 4) : random.uniform();
      costs.push_back(cost);
      const int supply = std::min(random.between(1, 4), ceiling - taken);
      taken += supply;
      rows.push_back({{}, supply});
    }
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r].cost = costs[r];

    const std::vector<int> owners = cheapest_assignment(rows, n_columns);
    std::vector<int> owned(rows.size(), 0);
    double total = 0;
    for (int j = 0; j < n_columns; ++j) {
      if (owners[j] < 0) continue;
      ASSERT_LT(j, int(rows[owners[j]].cost.size()));
      ++owned[owners[j]];
      total += rows[owners[j]].cost[j];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) EXPECT_EQ(owned[r], rows[r].supply);
    // Both sum at most 60 costs below 5, and potentials of that size: 1e-15 each.
    EXPECT_NEAR(total, textbook_cost(rows, n_columns), 1e-11);
  }
}

}  // namespace
}  // namespace kvscope::testing
