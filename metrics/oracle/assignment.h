// Minimum-cost assignment of rows to columns: shortest augmenting paths with dual potentials
// (Jonker, Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment
// problems", Computing 38, 1987), for more columns than are taken (Crouse, IEEE T-AES 52, 2016).
//
// Deviation: a row may take several columns (a transportation problem). The evictions at a prompt's
// end are hundreds of identical rows; as one row they cost one scan a path instead of hundreds.
#pragma once

#include <span>
#include <vector>

namespace kvscope {

struct AssignmentRow {
  std::span<const double> cost;  // of columns 0 … size - 1; the others are not allowed
  int supply = 1;                // columns this row takes
};

// The row that owns each column, or -1: [n_columns]. Every row owns `supply` columns of its own at
// the least total cost. O(S · r · n_columns) for a total supply S and r rows on the longest search,
// O(N³) at worst. Throws std::invalid_argument where no assignment exists.
std::vector<int> cheapest_assignment(std::span<const AssignmentRow> rows, int n_columns);

}  // namespace kvscope
