#include "datasets/needle/generated.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "datasets/chat/chat_sample.h"
#include "datasets/chat/chat_template.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr std::size_t kDepths = 40;  // RULER's grid, 0 and 100 included

void check(const std::string& name, const GeneratedOptions& options) {
  if (options.samples_per_length < 1) throw UsageError(name + " needs at least 1 sample");
  if (options.lengths.empty()) throw UsageError(name + " needs at least one prompt length");
  const std::set<int> lengths(options.lengths.begin(), options.lengths.end());
  if (*lengths.begin() < 1) {
    throw UsageError(name + ": a prompt of " + std::to_string(*lengths.begin()) +
                     " tokens is too short");
  }
  if (lengths.size() != options.lengths.size()) {
    throw UsageError(name + ": a prompt length is given twice");
  }
  for (const double depth : options.depths_percent) {
    if (!(depth >= 0 && depth <= 100)) {
      throw UsageError(name + ": a depth is a percentage from 0 to 100");
    }
  }
}

double grid_percent(std::size_t i) { return 100.0 * static_cast<double>(i) / (kDepths - 1); }

}  // namespace

Dataset generate(const GeneratedKind& kind, const GeneratedOptions& options,
                 const Tokenizer& tokenizer, const DrawPrompt& draw) {
  check(kind.name, options);
  const ChatTemplate chat = options.plain_template ? plain_chat(tokenizer) : chat_for(tokenizer);
  Dataset data;
  data.name = kind.name;
  data.version = kind.version + " template=" + std::string(chat.name()) +
                 " seed=" + std::to_string(options.seed);
  if (!chat.notice().empty()) data.notes.push_back(chat.notice());
  for (const int length : options.lengths) {
    for (int i = 0; i < options.samples_per_length; ++i) {
      const std::string key =
          kind.name + ":length=" + std::to_string(length) + ":sample=" + std::to_string(i);
      Random random(options.seed, key);
      GeneratedPrompt drawn = draw({key, length, i, random});
      const ChatQuestion question =
          fill_exactly(drawn.prompt, static_cast<std::size_t>(length), chat, tokenizer);
      Sample sample = make_chat_sample(question, chat, tokenizer);
      sample.key = key;
      sample.cluster_key = drawn.cluster_key.empty() ? key : std::move(drawn.cluster_key);
      sample.max_new_tokens = kind.max_new_tokens;
      sample.tags = std::move(drawn.tags);
      sample.tags["kind"] = kind.name;
      sample.tags["length"] = std::to_string(length);
      data.samples.push_back(std::move(sample));
    }
  }
  return data;
}

HaystackSections::HaystackSections(Haystack text, const GeneratedOptions& options)
    : haystack(std::move(text)) {
  if (options.lengths.empty()) return;  // refused later
  const int longest = *std::ranges::max_element(options.lengths);
  firsts_ = haystack.sections(static_cast<std::size_t>(std::max(longest, 1)));
  Random(options.seed, "haystack sections").shuffle(firsts_);
}

std::size_t HaystackSections::first_sentence(int number) const {
  return haystack.is_noise() ? 0 : firsts_[static_cast<std::size_t>(number) % firsts_.size()];
}

std::string HaystackSections::cluster_key(int number) const {
  if (haystack.is_noise()) return {};
  return "haystack:sentence=" + std::to_string(first_sentence(number));
}

double depth_percent(const GeneratedOptions& options, int number, Random& random) {
  if (options.depths_percent.empty()) return grid_percent(random.below(kDepths));
  return options.depths_percent[static_cast<std::size_t>(number) % options.depths_percent.size()];
}

std::vector<double> spread_depths_percent(std::size_t n, Random& random) {
  std::vector<std::size_t> places(std::max(n, kDepths));
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i % kDepths;
  random.shuffle(places);
  places.resize(n);
  std::ranges::sort(places);
  std::vector<double> depths;
  for (const std::size_t place : places) depths.push_back(grid_percent(place));
  return depths;
}

std::string percent_text(double percent) {
  const long tenths = std::lround(percent * 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

}  // namespace kvscope
