// Several questions about one text, asked in turn on one cache: what eviction left after the text
// is all that later questions have.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/needle/generated.h"
#include "datasets/sample.h"

namespace kvscope {

enum class DialogueKind {
  kRandom,       // hidden numbers asked for in random order
  kTopicSwitch,  // all turns but the last ask for what stands in the text's second half; the last
                 // one for a number near its start that nobody has mentioned since
  kEarlyFirst,   // its control: the same texts, and the early number asked for first
};

// Which answers stand in the cache when the next question comes.
enum class DialogueFeed { kGold, kOwn };

struct DialogueOptions {
  GeneratedOptions text;  // samples_per_length counts dialogues; the first prompt has the length
  DialogueKind kind = DialogueKind::kRandom;
  DialogueFeed feed = DialogueFeed::kGold;
  int turns = 4;
};

// A sample is a turn, ordered by dialogue and turn; a dialogue is a cluster. Its prompt is the text
// with the first question, and policies select there. Its prefix is everything after that: earlier
// turns with their gold answers, this turn's question, and how the answer begins.
struct Dialogues {
  Dataset data;
  // Of each sample: what is fed between the answer before and its own. The first turn's is what
  // follows the prompt.
  std::vector<std::vector<std::int32_t>> feeds;
  std::size_t turns = 0;  // of a dialogue
};

// Five-digit numbers hidden in noise or in options.text.haystack. Tags: turn, and asks = early or
// recent. Throws UsageError for absurd options.
Dialogues make_dialogues(const DialogueOptions& options, const Tokenizer& tokenizer);

}  // namespace kvscope
