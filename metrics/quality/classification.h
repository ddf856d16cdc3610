#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// LongBench's classification_score: 1 / (classes named in the answer) if the gold is among them,
// else 0. Names that are part of the gold's name are taken out, by a loop that the published code
// lets skip the entry after each one it removes; the same here. The best gold.
double classification(std::string_view answer, std::span<const std::string> golds,
                      std::span<const std::string> classes);

}  // namespace kvscope
