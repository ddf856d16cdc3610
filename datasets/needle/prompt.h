// The text of one needle prompt, and how much haystack fits into it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "datasets/needle/haystack.h"
#include "datasets/needle/needle.h"

namespace kvscope {

struct KeyValue {
  std::string_view word;
  std::string number;
};

// Everything of a sample but how much haystack fits.
struct NeedlePlan {
  std::vector<KeyValue> pairs;  // the first one is asked for
  std::vector<double> depths;   // of each pair, 0 to 1
  std::size_t first_sentence = 0;
};

struct NeedleFit {
  std::size_t length = 0;  // tokens, template included
  bool exact = false;      // or at most so many
};

// The prompt with as many sentences, then words, of haystack as fit; where it must be exact, words
// of one token each stand in the place of what is left. Throws UsageError when not even one
// sentence fits.
ChatQuestion fill_to_length(NeedleKind kind, const Haystack& haystack, const NeedlePlan& plan,
                            const NeedleFit& fit, const ChatTemplate& chat,
                            const Tokenizer& tokenizer);

}  // namespace kvscope
