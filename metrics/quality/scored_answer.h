// What a scorer of a published benchmark looks at.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

class ChineseWords;

struct ScoredAnswer {
  std::string_view answer;
  std::span<const std::string> golds;         // accepted answers, or all that are to be found
  std::span<const std::string> classes = {};  // answers to choose from (classification)
  std::string_view question = {};             // as it was asked (BABILong)
  const ChineseWords* words = nullptr;        // of scorers that need a dictionary; else unused
};

}  // namespace kvscope
