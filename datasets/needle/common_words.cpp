#include <set>
#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/pieces.h"
#include "datasets/needle/ruler_synthetic.h"
#include "datasets/needle/words.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 120;  // RULER's

// Different words in random order, single ones first and pairs of them when they run out.
std::vector<std::string> draw_words(std::size_t n, Random& random) {
  std::vector<std::string> words(needle_words().begin(), needle_words().end());
  for (const std::string_view adjective : needle_adjectives()) words.emplace_back(adjective);
  random.shuffle(words);
  std::set<std::string> taken(words.begin(), words.end());
  while (words.size() < n) {
    words.push_back(draw_new(taken, [&] { return draw_word_key(random); }));
  }
  words.resize(n);
  return words;
}

// The list's entries with so many of them uncommon: those of one word stand anywhere.
std::vector<std::string> entries(const std::vector<std::string>& words, int common, int uncommon,
                                 std::size_t n_common, std::size_t n_uncommon, Random random) {
  std::vector<std::string> list;
  for (std::size_t w = 0; w < n_common; ++w) list.insert(list.end(), std::size_t(common), words[w]);
  for (std::size_t i = 0; i < n_uncommon; ++i) {
    list.push_back(words[n_common + i / std::size_t(uncommon)]);
  }
  random.shuffle(list);
  return list;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Dataset make_common_words(const CommonWordsOptions& counts, const GeneratedOptions& options,
                          const Tokenizer& tokenizer) {
  if (counts.words < 1 || counts.words > 50 || counts.uncommon < 1 ||
      (counts.common != 0 && counts.common <= counts.uncommon)) {
    throw UsageError(
        "cwe asks for 1 to 50 words, and common ones must be more frequent than the others");
  }
  const Haystack noise = Haystack::noise(tokenizer);
  const auto draw = [&](const DrawContext& context) {
    const int common = counts.common > 0 ? counts.common : context.length < 4096 ? 10 : 30;
    const auto n_common = std::size_t(counts.words);
    // An entry has at least three tokens (number, dot, word): so many words are enough.
    const auto most = std::size_t(context.length) / 3 / std::size_t(counts.uncommon) + n_common + 1;
    const auto words = draw_words(most, context.random);
    const std::vector<std::string> asked(words.begin(), words.begin() + counts.words);
    GrowingPrompt prompt;
    prompt.least_pieces = 0;
    // A word of two or three tokens behind a number, a dot and a space.
    prompt.piece_tokens = [](std::size_t) { return std::size_t{6}; };
    prompt.tail_words = [&noise](std::size_t) { return haystack_words(noise, 0); };
    prompt.compose = [=, random = context.random](std::size_t pieces, std::string_view tail) {
      ChatQuestion q;
      q.text =
          "Below is a numbered list of words, in which some occur more often than others. "
          "Find the most frequent ones.\n";
      if (!tail.empty()) q.text.append(tail).append("\n");
      std::size_t number = 0;
      for (const std::string& word :
           entries(words, common, counts.uncommon, n_common,
                   std::min(pieces, (words.size() - n_common) * std::size_t(counts.uncommon)),
                   random)) {
        if (number > 0) q.text += ' ';
        q.text.append(std::to_string(++number)).append(". ").append(word);
      }
      q.text += "\n";
      q.question_begin = q.text.size();
      const std::string n = std::to_string(counts.words);
      q.text += "What are the " + n + " most frequent words in the list above?";
      q.answer_prefix = "The " + n + " most frequent words in the list are";
      q.golds = asked;
      q.gold_answer = joined(asked);
      return q;
    };
    return GeneratedPrompt{std::move(prompt), {}, {{"common", std::to_string(common)}}};
  };
  return generate(
      {"cwe",
       "1 words=" + std::to_string(counts.words) + " common=" + std::to_string(counts.common) +
           " uncommon=" + std::to_string(counts.uncommon),
       kNewTokens},
      options, tokenizer, draw);
}

}  // namespace kvscope
