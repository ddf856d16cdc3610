#include "datasets/needle/needle.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "datasets/base/random.h"
#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "datasets/needle/haystack.h"
#include "datasets/needle/prompt.h"
#include "datasets/needle/words.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 8;  // five digits, the space before them, and what the model adds

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
  const ChatTemplate chat = options.plain_template ? plain_chat(tokenizer) : chat_for(tokenizer);
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
  if (options.exact) data.version += " fill=exact";
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

      const NeedleFit fit{static_cast<std::size_t>(length), options.exact};
      Sample sample = make_chat_sample(
          fill_to_length(options.kind, haystack, plan, fit, chat, tokenizer), chat, tokenizer);
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
