// Answers that are a letter.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// L-Eval's exam score (An et al. 2023). A gold of letters A-D: 1 if the answer has the same, 0.25
// if all its letters are among the gold's. Other golds: equal as numbers, else contained in the
// answer's first line of more than one byte, whatever case and spaces. The best gold.
double exam(std::string_view answer, std::span<const std::string> golds);

// The same after L-Eval's extraction for sets with options: the answer's first A-D ("A" if there is
// none, as published) against the letters of the gold's first word.
double exam_choice(std::string_view answer, std::span<const std::string> golds);

// LongBench v2: the letter of "The correct answer is (X)", or without brackets, once "*" is
// deleted.
double stated_choice(std::string_view answer, std::span<const std::string> golds);

// 1 if the answer's first whole word A, B, C or D is the gold's letter (of BAMBOO, QuALITY and
// SCBench, whose authors judge by other means).
double first_choice(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
