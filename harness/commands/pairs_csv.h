// Pairs of numbers in a CSV file with the columns cluster, a and b.
#pragma once

#include <string_view>
#include <vector>

#include "metrics/stats/pair.h"

namespace kvscope {

// The first line names the columns, in any order; others are ignored. Cells may be quoted ("a
// ""b"", c"); numbers have a decimal point in every locale. Throws DataError with `where` and the
// line.
std::vector<Pair> parse_pairs_csv(std::string_view text, std::string_view where);

}  // namespace kvscope
