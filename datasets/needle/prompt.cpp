#include "datasets/needle/prompt.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "datasets/needle/fill.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

std::string needle_sentence(const KeyValue& pair) {
  return "One of the special magic numbers for " + std::string(pair.word) + " is: " + pair.number +
         ".";
}

std::string instruction(NeedleKind kind) {
  return kind == NeedleKind::kMagicNumber ? "A special magic number is hidden within the following "
                                            "text. Make sure to memorize it."
                                          : "Some special magic numbers are hidden within the "
                                            "following text. Make sure to memorize them.";
}

std::string question(std::string_view word) {
  return "What is the special magic number for " + std::string(word) +
         " mentioned in the provided text?";
}

std::string answer_prefix(std::string_view word) {
  return "The special magic number for " + std::string(word) + " mentioned in the provided text is";
}

// The first (from_front) or last `n` words of a sentence, with the white space beside them.
std::string some_words(const std::string& sentence, std::size_t n, bool from_front) {
  if (n == 0) return {};
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < sentence.size(); ++i) {
    const bool space = sentence[i] == ' ' || sentence[i] == '\n';
    const bool after_space = i == 0 || sentence[i - 1] == ' ' || sentence[i - 1] == '\n';
    if (!space && after_space) starts.push_back(i);
  }
  if (n >= starts.size()) return sentence;
  return from_front ? sentence.substr(0, starts[n]) : sentence.substr(starts[starts.size() - n]);
}

// The gap, 0 to n, whose distance from the section's start is nearest to `depth` of n sentences'
// tokens.
std::size_t gap_at(const Haystack& haystack, std::size_t first, std::size_t n, double depth) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < n; ++i) total += haystack.tokens(first + i);
  const double wanted = depth * static_cast<double>(total);
  std::size_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  std::size_t passed = 0;
  for (std::size_t gap = 0; gap <= n; ++gap) {
    const double distance = std::abs(static_cast<double>(passed) - wanted);
    if (distance < best_distance) {
      best = gap;
      best_distance = distance;
    }
    if (gap < n) passed += haystack.tokens(first + gap);
  }
  return best;
}

// The user's turn with `n_sentences` of haystack and `n_words` of one more. The broken sentence
// stands at the end, or at the start when a needle closes the text: a needle never touches it.
// `pads` stands beside it.
ChatQuestion compose(NeedleKind kind, const Haystack& haystack, const NeedlePlan& plan,
                     std::size_t n_sentences, std::size_t n_words, std::string_view pads = {}) {
  std::vector<std::pair<std::size_t, std::size_t>> needles;  // gap, index of the pair
  for (std::size_t k = 0; k < plan.pairs.size(); ++k) {
    needles.emplace_back(gap_at(haystack, plan.first_sentence, n_sentences, plan.depths[k]), k);
  }
  std::sort(needles.begin(), needles.end());
  const bool needle_last = !needles.empty() && needles.back().first == n_sentences;

  ChatQuestion q;
  q.text = instruction(kind) + "\n";
  if (needle_last) {
    if (!pads.empty()) q.text.append(pads).append(" ");
    const std::size_t before = plan.first_sentence + haystack.size() - 1;
    q.text += some_words(haystack.sentence(before), n_words, false);
  }
  std::size_t next = 0;
  for (std::size_t gap = 0; gap <= n_sentences; ++gap) {
    for (; next < needles.size() && needles[next].first == gap; ++next) {
      const std::string sentence = needle_sentence(plan.pairs[needles[next].second]);
      if (needles[next].second == 0) {
        q.evidence_begin = q.text.size();
        q.evidence_end = q.text.size() + sentence.size();
      }
      q.text += sentence + " ";
    }
    if (gap < n_sentences) q.text += haystack.sentence(plan.first_sentence + gap);
  }
  if (!needle_last) {
    q.text += some_words(haystack.sentence(plan.first_sentence + n_sentences), n_words, true);
    if (!pads.empty() && q.text.back() != ' ' && q.text.back() != '\n') q.text += ' ';
    q.text += pads;
  }
  while (q.text.back() == ' ' || q.text.back() == '\n') q.text.pop_back();
  q.text += "\n";
  q.question_begin = q.text.size();
  q.text += question(plan.pairs[0].word);
  q.answer_prefix = answer_prefix(plan.pairs[0].word);
  q.golds = {plan.pairs[0].number};
  return q;
}

// The largest x in [low, high] with fits(x), given fits(low); fits holds up to some x and not
// beyond.
template <typename Fits>
std::size_t largest(std::size_t low, std::size_t high, const Fits& fits) {
  while (low < high) {
    const std::size_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

ChatQuestion fill_to_length(NeedleKind kind, const Haystack& haystack, const NeedlePlan& plan,
                            const NeedleFit& fit, const ChatTemplate& chat,
                            const Tokenizer& tokenizer) {
  const std::size_t length = fit.length;
  const auto prompt_tokens = [&](std::size_t sentences, std::size_t words) {
    return chat.render_user(compose(kind, haystack, plan, sentences, words).text).size();
  };
  const std::size_t least = prompt_tokens(1, 0);
  if (least > length) {
    throw UsageError("a needle prompt of " + std::to_string(length) +
                     " tokens is too short: its question and one sentence take " +
                     std::to_string(least));
  }
  // Counts of single sentences are a few per cent off for the joined text; half as much again is
  // surely too long.
  std::size_t high = 1;
  for (std::size_t sum = 0; sum < length + length / 2; ++high) {
    sum += haystack.tokens(plan.first_sentence + high - 1);
  }
  const std::size_t sentences =
      largest(1, high, [&](std::size_t n) { return prompt_tokens(n, 0) <= length; });
  const std::size_t words =
      largest(0, 64, [&](std::size_t n) { return prompt_tokens(sentences, n) <= length; });
  if (!fit.exact) return compose(kind, haystack, plan, sentences, words);
  // A word less leaves more to fill where what is left is less than any tail.
  for (std::size_t some = words + 1; some-- > 0;) {
    const auto padded = [&](std::string_view pads) {
      return compose(kind, haystack, plan, sentences, some, pads);
    };
    const auto pads = exact_tail({}, length, tokenizer, [&](std::string_view tail) {
      return chat.render_user(padded(tail).text).size();
    });
    if (pads) return padded(*pads);
  }
  refuse_length(length);
}

}  // namespace kvscope
