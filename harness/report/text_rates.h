// Perplexity over a whole text by token, by word and by byte: ratios of sums over its windows.
#pragma once

#include <optional>
#include <string_view>

#include "harness/report/json.h"
#include "harness/store/store.h"

namespace kvscope {

struct TextRates {
  double token_perplexity = 0.0;  // depends on the tokenizer
  double word_perplexity = 0.0;   // over the original text's words
  double byte_perplexity = 0.0;
  double bits_per_byte = 0.0;
};

// Nothing for data sets without windows.
std::optional<TextRates> text_rates(Store& store, std::int64_t arm_id,
                                    std::string_view dataset_key);
Json text_rates_json(const TextRates& rates);

}  // namespace kvscope
