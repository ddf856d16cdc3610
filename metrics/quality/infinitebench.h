// InfiniteBench's scores (Zhang et al. 2024) that are its own; its QA is token_f1 and character_f1,
// its summaries rouge_l_sum. All 0 or 1 but math_calc.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// passkey, number_string: the answer's first run of digits equals the gold.
double first_number(std::string_view answer, std::span<const std::string> golds);

// kv_retrieval: the gold is one of the answer's words, where : " ' . , ? ! { } also part words.
double whole_word(std::string_view answer, std::span<const std::string> golds);

// longdialogue_qa_eng: the same with the answer's words in capitals.
double whole_capital_word(std::string_view answer, std::span<const std::string> golds);

// longbook_choice_eng: the first letter, then what follows "answer is:" and the like, then the
// first word that is A, B, C or D. Golds are the letter and the option's text.
double choice_letter_or_text(std::string_view answer, std::span<const std::string> golds);

// code_debug: "C." or "C:" at the start, else what follows "answer is:", "is:" or "answer:". Golds
// are the function's name and the option's letter.
double code_debug(std::string_view answer, std::span<const std::string> golds);

// code_run: the answer's last word as a whole number. math_find: its first number.
double last_integer(std::string_view answer, std::span<const std::string> golds);
double first_value(std::string_view answer, std::span<const std::string> golds);

// math_calc: how many of the golds, in order, are the answer's numbers from the first on, as a
// share.
double leading_values(std::string_view answer, std::span<const std::string> golds);

}  // namespace kvscope
