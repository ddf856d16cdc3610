// One value out of a JSON object with many: the retrieval task of Liu et al. 2023 ("Lost in the
// middle") and InfiniteBench.
#pragma once

#include "datasets/needle/generated.h"

namespace kvscope {

enum class PairStyle {
  kUuid,   // both sides, as in the papers: about 71 tokens of SmolLM2
  kShort,  // a word and five digits: about 12, which a small model can do
};

// As many pairs as fit; the asked one at options.depths_percent in turn, or at a depth drawn from
// 40 even ones. What no pair fits into is filled with words before the object.
Dataset make_key_value_retrieval(PairStyle style, const GeneratedOptions& options,
                                 const Tokenizer& tokenizer);

}  // namespace kvscope
