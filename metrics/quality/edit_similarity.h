#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// LongBench's code_sim_score: the answer's first line (after leading line feeds) without a
// backtick,
// "#" or "//" against the gold: 2 · matches / both lengths by insertions and deletions (fuzz.ratio
// with python-Levenshtein), rounded to hundredths. The best gold.
double edit_similarity(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
