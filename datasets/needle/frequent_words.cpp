#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/pieces.h"
#include "datasets/needle/ruler_synthetic.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 50;  // RULER's
constexpr std::size_t kWordLetters = 6;
constexpr std::size_t kAsked = 3;
constexpr std::size_t kMostWords = 1000;  // different ones; rarer ones would occur less than once
constexpr std::string_view kDots = "....";

// How often each rank occurs among n words: zeta distribution with alpha 2, in whole numbers so
// that it is the same everywhere. What is lost in rounding goes to the dots.
std::vector<std::size_t> zeta_counts(std::size_t n) {
  constexpr std::uint64_t kUnit = 1'000'000'000'000;
  constexpr std::uint64_t kZeta = 1'644'934'066'848;  // of 2, in the same unit
  std::vector<std::size_t> counts;
  std::size_t sum = 0;
  for (std::uint64_t rank = 1; rank <= kMostWords; ++rank) {
    const auto count = static_cast<std::size_t>(n * (kUnit / (rank * rank)) / kZeta);
    if (count == 0) break;
    counts.push_back(count);
    sum += count;
  }
  if (counts.empty()) counts.push_back(0);
  counts.front() += n - sum;
  return counts;
}

ChatQuestion compose(const std::vector<std::string>& words, std::size_t n, std::string_view tail,
                     Random random) {
  std::vector<std::string> text;
  const std::vector<std::size_t> counts = zeta_counts(n);
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    text.insert(text.end(), counts[rank], words[rank]);
  }
  random.shuffle(text);
  ChatQuestion q;
  q.text = "Below is a text in code words. Find out how often each of them occurs.\n";
  if (!tail.empty()) q.text.append(tail).append("\n");
  for (const std::string& word : text) q.text += word + " ";
  q.text.back() = '\n';
  q.question_begin = q.text.size();
  q.text += "What are the three most frequent words in the coded text above, leaving out the dots?";
  q.answer_prefix = "The three most frequent words in the coded text are";
  for (std::size_t i = 1; i <= kAsked; ++i) {
    q.golds.push_back(words[i]);
    q.gold_answer += (i == 1 ? "" : ", ") + words[i];
  }
  return q;
}

}  // namespace

Dataset make_frequent_words(const GeneratedOptions& options, const Tokenizer& tokenizer) {
  const Haystack noise = Haystack::noise(tokenizer);
  const auto draw = [&](const DrawContext& context) {
    std::vector<std::string> words = {std::string(kDots)};
    std::set<std::string> taken;
    while (words.size() < kMostWords) {
      words.push_back(
          draw_new(taken, [&] { return draw_letters(kWordLetters, 'a', context.random); }));
    }
    GrowingPrompt prompt;
    // Where the fourth word is rarer than the third, which the rounded counts are from here on.
    prompt.least_pieces = 60;
    prompt.piece_tokens = [](std::size_t) { return std::size_t{2}; };  // six in ten are dots
    prompt.tail_words = [&noise](std::size_t) { return haystack_words(noise, 0); };
    prompt.compose = [words = std::move(words), random = context.random](std::size_t pieces,
                                                                         std::string_view tail) {
      return compose(words, pieces, tail, random);
    };
    return GeneratedPrompt{std::move(prompt), {}, {}};
  };
  return generate({"fwe", "1 alpha=2", kNewTokens}, options, tokenizer, draw);
}

}  // namespace kvscope
