// What every generator and loader of this folder returns: token ids ready for the engine, what
// counts as an answer, and the keys under which results are stored.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvscope {

// How much of a generated answer is judged: all of it, its first line, or the rest of the sentence
// that the answer's prefix began.
// Values are part of Dataset::key().
enum class AnswerCut { kNone, kFirstLine, kSentenceRest };

// One prompt with its answer (needle, qa).
struct Sample {
  std::string key;          // stable name inside the data set
  std::string cluster_key;  // unit of independent draw: the document or haystack section
  std::vector<std::int32_t> prompt_ids;  // ends with the question
  // The question is the tokens from here to the prompt's end. Policies select at the prompt's end,
  // or, where they must not see the question, before this token. -1: unknown. Follows from the data
  // set's version and the ids, so it is no part of any key: another place asks for a new version.
  int question_begin = -1;
  // Fed token by token after the selection: end of the user's turn, assistant header, start of the
  // answer. May be empty.
  std::vector<std::int32_t> prefix_ids;
  std::vector<std::int32_t>
      gold_ids;                    // the gold answer as the model would write it after the prefix
  std::vector<std::string> golds;  // accepted answers, the first one is the one of gold_ids; may be
                                   // empty where they are not published
  // What the scorer of the data set's authors needs (metrics/quality/scorers.h).
  std::string scorer;                // its name; empty: the task's own metrics alone
  std::vector<std::string> classes;  // answers to choose from
  std::string question;              // as it was asked
  int max_new_tokens = 0;
  AnswerCut answer_cut = AnswerCut::kNone;
  std::string input_sha256;  // of prompt, prefix and gold ids (input_hash below)
  // Tokens [evidence_begin, evidence_end) of the prompt hold the fact that is asked for; -1, -1:
  // unknown.
  int evidence_begin = -1;
  int evidence_end = -1;
  // The same stretch first, then any others that the answer needs; empty: unknown.
  std::vector<std::pair<int, int>> evidence_spans;
  std::map<std::string, std::string> tags;  // what to group by: length, depth, …
};

// One stretch of a text (perplexity).
struct TextWindow {
  std::string key;
  std::string cluster_key;
  std::vector<std::int32_t> ids;
  int first_scored = 1;  // tokens before it are context only
  std::string input_sha256;
  // Of the original text behind the scored tokens. Words are what white space separates; where the
  // scored text is not the original, a window has its share of the document's words.
  double scored_words = 0.0;
  double scored_bytes = 0.0;
};

// A named list of samples or of windows; one of the two is empty.
struct Dataset {
  std::string name;
  std::string version;  // version of the generator or loader, with its options
  std::vector<Sample> samples;
  std::vector<TextWindow> windows;
  std::vector<std::string> notes;  // what a user should be told once, one line each

  // SHA-256 over name, version and, in order, what decides a sample's results and their pairing:
  // key, input hash, cluster, golds, length and cut of the answer.
  std::string key() const;
};

// SHA-256 of the lists' lengths and ids, each as a little-endian 32-bit integer.
std::string input_hash(std::span<const std::int32_t> prompt, std::span<const std::int32_t> prefix,
                       std::span<const std::int32_t> gold);

}  // namespace kvscope
