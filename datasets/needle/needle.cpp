#include "datasets/needle/needle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "datasets/base/random.h"
#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "datasets/needle/haystack.h"
#include "datasets/needle/words.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 8;  // five digits, the space before them, and what the model adds

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
ChatQuestion compose(const NeedleOptions& options, const Haystack& haystack, const NeedlePlan& plan,
                     std::size_t n_sentences, std::size_t n_words) {
  std::vector<std::pair<std::size_t, std::size_t>> needles;  // gap, index of the pair
  for (std::size_t k = 0; k < plan.pairs.size(); ++k) {
    needles.emplace_back(gap_at(haystack, plan.first_sentence, n_sentences, plan.depths[k]), k);
  }
  std::sort(needles.begin(), needles.end());
  const bool needle_last = !needles.empty() && needles.back().first == n_sentences;

  ChatQuestion q;
  q.text = instruction(options.kind) + "\n";
  if (needle_last) {
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
  }
  while (q.text.back() == ' ' || q.text.back() == '\n') q.text.pop_back();
  q.text += "\n" + question(plan.pairs[0].word);
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

ChatQuestion fill_to_length(const NeedleOptions& options, const Haystack& haystack,
                            const NeedlePlan& plan, std::size_t length, const ChatTemplate& chat) {
  const auto prompt_tokens = [&](std::size_t sentences, std::size_t words) {
    return chat.render_user(compose(options, haystack, plan, sentences, words).text).size();
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
  return compose(options, haystack, plan, sentences, words);
}

void check(const NeedleOptions& options) {
  if (options.samples_per_length < 1) throw UsageError("needle needs at least 1 sample per length");
  if (options.lengths.empty()) throw UsageError("needle needs at least one prompt length");
  for (const int length : options.lengths) {
    if (length < 1)
      throw UsageError("a needle prompt of " + std::to_string(length) + " tokens is too short");
  }
  if (std::set<int>(options.lengths.begin(), options.lengths.end()).size() !=
      options.lengths.size()) {
    throw UsageError("needle: a prompt length is given twice");
  }
  for (const double depth : options.depths_percent) {
    if (!(depth >= 0 && depth <= 100))
      throw UsageError("a needle's depth is a percentage from 0 to 100");
  }
  const int most = static_cast<int>(needle_words().size());
  if (options.kind == NeedleKind::kKeyValue && (options.keys < 2 || options.keys > most)) {
    throw UsageError("key_value needs 2 to " + std::to_string(most) + " keys, not " +
                     std::to_string(options.keys));
  }
}

double depth_percent(const NeedleOptions& options, int i) {
  if (!options.depths_percent.empty()) {
    return options.depths_percent[static_cast<std::size_t>(i) % options.depths_percent.size()];
  }
  return options.samples_per_length == 1 ? 50.0 : 100.0 * i / (options.samples_per_length - 1);
}

// In tenths of a percent, printed without the locale.
std::string print_percent(double percent) {
  const long tenths = std::lround(percent * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

NeedlePlan draw(const NeedleOptions& options, double depth, Random& random) {
  const std::size_t n_pairs =
      options.kind == NeedleKind::kKeyValue ? static_cast<std::size_t>(options.keys) : 1;
  std::vector<std::string_view> words(needle_words().begin(), needle_words().end());
  random.shuffle(words);
  NeedlePlan plan;
  for (std::size_t k = 0; k < n_pairs; ++k) {
    std::string number;
    const auto taken = [&](const KeyValue& pair) { return pair.number == number; };
    do {
      number = std::to_string(10000 + random.below(90000));
    } while (std::any_of(plan.pairs.begin(), plan.pairs.end(), taken));
    plan.pairs.push_back({words[k], number});
    plan.depths.push_back(k == 0 ? depth : static_cast<double>(random.below(1001)) / 1000);
  }
  return plan;
}

}  // namespace

Dataset make_needle(const NeedleOptions& options, const Tokenizer& tokenizer) {
  check(options);
  const ChatTemplate chat = chat_for(tokenizer);
  const Haystack haystack = options.haystack.empty()
                                ? Haystack::noise(tokenizer)
                                : Haystack::from_path(options.haystack, tokenizer);
  const std::string kind = options.kind == NeedleKind::kMagicNumber ? "magic_number" : "key_value";

  // Sections are cut for the longest prompts, so that sample i reads the same section at every
  // length.
  const int longest = *std::max_element(options.lengths.begin(), options.lengths.end());
  std::vector<std::size_t> sections = haystack.sections(static_cast<std::size_t>(longest));
  Random(options.seed, "needle sections").shuffle(sections);

  Dataset data;
  data.name = "needle";
  data.version = "1 kind=" + kind + " haystack=" + (haystack.is_noise() ? "noise" : "text");
  if (options.kind == NeedleKind::kKeyValue)
    data.version += " keys=" + std::to_string(options.keys);
  data.version += " template=" + std::string(chat.name()) + " seed=" + std::to_string(options.seed);
  if (!chat.notice().empty()) data.notes.push_back(chat.notice());

  for (const int length : options.lengths) {
    for (int i = 0; i < options.samples_per_length; ++i) {
      const double depth = depth_percent(options, i);
      const std::string key = kind + ":length=" + std::to_string(length) +
                              ":depth=" + print_percent(depth) + ":sample=" + std::to_string(i);
      Random random(options.seed, key);
      NeedlePlan plan = draw(options, depth / 100, random);
      const std::size_t section = static_cast<std::size_t>(i) % sections.size();
      plan.first_sentence = haystack.is_noise() ? 0 : sections[section];

      Sample sample = make_chat_sample(
          fill_to_length(options, haystack, plan, static_cast<std::size_t>(length), chat), chat,
          tokenizer);
      sample.key = key;
      sample.cluster_key =
          haystack.is_noise() ? key : "haystack:sentence=" + std::to_string(plan.first_sentence);
      sample.max_new_tokens = kNewTokens;
      sample.tags = {{"kind", kind},
                     {"length", std::to_string(length)},
                     {"depth_percent", print_percent(depth)}};
      data.samples.push_back(std::move(sample));
    }
  }
  return data;
}

}  // namespace kvscope
