// Longest common subsequence of two lists of words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvscope {

using WordList = std::vector<std::string>;

// Lengths of the longest common subsequence of every pair of beginnings, [a.size() + 1][b.size() +
// 1].
class LcsTable {
 public:
  LcsTable(const WordList& a, const WordList& b);
  int at(std::size_t i, std::size_t j) const { return lengths_[i * width_ + j]; }
  int length() const { return lengths_.back(); }

 private:
  std::size_t width_;
  std::vector<int> lengths_;
};

// Several subsequences can be longest. Which one is read out, where the words differ and both
// neighbours are equally long: the one that goes back in `b`, or in `a`.
enum class LcsTie { kBackInB, kBackInA };

// Ascending indices into `a` of one longest common subsequence.
std::vector<std::size_t> lcs_indices(const WordList& a, const WordList& b, LcsTie tie);

}  // namespace kvscope
