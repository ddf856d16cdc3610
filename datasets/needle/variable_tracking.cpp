#include <algorithm>
#include <set>
#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/pieces.h"
#include "datasets/needle/ruler_synthetic.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 30;                // RULER's
constexpr std::size_t kExampleSentences = 8;  // the example takes some 150 tokens of SmolLM2

struct Chain {
  std::string value;
  std::vector<std::string> names;

  std::string assignment(std::size_t i) const {
    return "VAR " + names[i] + " = " + (i == 0 ? value : "VAR " + names[i - 1]) + ".";
  }
};

class Draws {
 public:
  explicit Draws(Random& random) : random_(random) {}

  Chain chain(int hops) {
    Chain chain{draw_new(taken_, [&] { return draw_digits(5, random_); }), {}};
    for (int i = 0; i <= hops; ++i) {
      chain.names.push_back(draw_new(taken_, [&] { return draw_letters(5, 'A', random_); }));
    }
    return chain;
  }

 private:
  Random& random_;
  std::set<std::string> taken_;
};

std::string question(const Chain& chain) {
  return "Find all variables that are assigned the value " + chain.value +
         " in the text above, directly or through another variable.";
}

std::string answer_prefix(const Chain& chain) {
  return "The variables that are assigned the value " + chain.value + " in the text above are";
}

std::string answer(const Chain& chain) {
  std::string text;
  for (const std::string& name : chain.names) text += (text.empty() ? "" : " ") + name;
  return text;
}

std::string solved_example(const Chain& chain, const Haystack& noise) {
  std::string text;
  for (std::size_t i = 0; i < std::max(kExampleSentences, chain.names.size()); ++i) {
    if (i < chain.names.size()) text += chain.assignment(i) + " ";
    if (i < kExampleSentences) text += noise.sentence(i);
  }
  text.pop_back();
  return text + "\n" + question(chain) + " " + answer_prefix(chain) + " " + answer(chain) + ".";
}

}  // namespace

Dataset make_variable_tracking(const VariableTrackingOptions& tracking,
                               const GeneratedOptions& options, const Tokenizer& tokenizer) {
  if (tracking.chains < 1 || tracking.chains > 20 || tracking.hops < 1 || tracking.hops > 20) {
    throw UsageError("vt has 1 to 20 chains of 1 to 20 hops");
  }
  const Haystack noise = Haystack::noise(tokenizer);
  const auto draw = [&](const DrawContext& context) {
    Draws draws(context.random);
    const Chain example = draws.chain(tracking.hops);
    std::vector<Chain> chains;
    for (int i = 0; i < tracking.chains; ++i) chains.push_back(draws.chain(tracking.hops));
    PiecesText text;
    text.opening =
        "Remember and follow the assignments of variables that are hidden in the text, "
        "as in this example.\n\n" +
        solved_example(example, noise) + "\n\nNow the text.\n";
    for (const Chain& chain : chains) {
      // Ascending: nothing is assigned from what comes later.
      const auto depths = spread_depths_percent(chain.names.size(), context.random);
      for (std::size_t i = 0; i < depths.size(); ++i) {
        text.inserts.push_back({depths[i] / 100, chain.assignment(i), &chain == &chains.front()});
      }
    }
    text.closing = question(chains.front());
    text.answer_prefix = answer_prefix(chains.front());
    text.golds = chains.front().names;
    text.gold_answer = answer(chains.front());
    return GeneratedPrompt{
        growing(std::move(text), sentences_from(noise, 0),
                [&noise](std::size_t pieces) { return haystack_words(noise, pieces); }),
        {},
        {}};
  };
  return generate(
      {"vt",
       "1 chains=" + std::to_string(tracking.chains) + " hops=" + std::to_string(tracking.hops),
       kNewTokens},
      options, tokenizer, draw);
}

}  // namespace kvscope
