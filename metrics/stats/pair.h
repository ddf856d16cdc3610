// One paired observation: the same item under two arms.
#pragma once

#include <string>

namespace kvscope {

// The difference of interest is d = b - a. Items of one cluster (a document, a book) may depend on
// each other.
struct Pair {
  std::string cluster;
  double a = 0;
  double b = 0;
};

struct Interval {
  double low = 0;
  double high = 0;
};

}  // namespace kvscope
