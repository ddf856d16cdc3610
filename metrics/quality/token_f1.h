#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// How the published scorers differ.
enum class F1Rule {
  kSquad,      // v2: no words on either side counts as equality of both sides
  kLongBench,  // no words in common is 0, also for two empty answers
  kHotpotQa,   // as LongBench, and 0 when one side is yes, no or noanswer and the other is not the
               // same
};

// Harmonic mean of precision and recall over the words of the normalised texts, words counted as
// often as they occur in both; the best over the golds. 0 to 1.
double token_f1(std::string_view answer, std::span<const std::string> golds,
                F1Rule rule = F1Rule::kSquad);

}  // namespace kvscope
