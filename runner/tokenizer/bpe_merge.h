// The merges of a byte-pair encoding (Sennrich et al. 2016), applied to a word.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace kvscope {

class MergeTable {
 public:
  struct Merge {
    std::int32_t rank;
    std::int32_t id;  // of the merged token
  };

  void reserve(std::size_t n) { merges_.reserve(n); }
  // The first merge that is given for a pair stays.
  void add(std::int32_t left, std::int32_t right, Merge merge);
  const Merge* find(std::int32_t left, std::int32_t right) const;  // null: the two do not merge

  // Merges the adjacent pair of lowest rank, the leftmost first, until none is known. O(n log n) in
  // the word's symbols, so that a text without any word's end does no harm.
  void apply(std::vector<std::int32_t>& symbols) const;

 private:
  std::unordered_map<std::uint64_t, Merge> merges_;  // by left id · 2^32 + right id
};

}  // namespace kvscope
