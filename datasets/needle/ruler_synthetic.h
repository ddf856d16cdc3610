// RULER's kinds that are no retrieval (Hsieh et al. 2024, §3.2 and §3.3): tracing variables and
// counting words. All values asked for must be named.
#pragma once

#include "datasets/needle/generated.h"

namespace kvscope {

struct VariableTrackingOptions {
  int chains = 1;  // only the first one is asked for
  int hops = 4;    // assignments of a chain after its first
};
// "VAR QXBTR = 48213." in noise, and chains "VAR LMNOP = VAR QXBTR."; which variables have the
// value? One short solved example stands before the text.
Dataset make_variable_tracking(const VariableTrackingOptions& tracking,
                               const GeneratedOptions& options, const Tokenizer& tokenizer);

struct CommonWordsOptions {
  int words = 10;    // asked for
  int common = 0;    // times each of them stands in the list; 0: 30, below 4,096 tokens 10
  int uncommon = 3;  // times each of the others does
};
// A numbered list of words in random order; which are the most frequent ones?
Dataset make_common_words(const CommonWordsOptions& counts, const GeneratedOptions& options,
                          const Tokenizer& tokenizer);

// Made-up words whose frequencies follow a zeta distribution with alpha 2, the first one of which
// is dots; which three are the next most frequent?
Dataset make_frequent_words(const GeneratedOptions& options, const Tokenizer& tokenizer);

}  // namespace kvscope
