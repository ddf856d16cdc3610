#include "datasets/needle/niah.h"

#include <memory>
#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/pieces.h"
#include "datasets/needle/words.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 128;  // RULER's

constexpr NiahKind kKinds[] = {
    {.name = "niah_single_1", .haystack = NiahHaystack::kNoise},
    {.name = "niah_single_2"},
    {.name = "niah_single_3", .value = NiahValue::kUuid},
    {.name = "niah_multikey_1", .keys = 4},
    {.name = "niah_multikey_2", .haystack = NiahHaystack::kNeedles},
    {.name = "niah_multikey_3",
     .haystack = NiahHaystack::kNeedles,
     .key = NiahName::kUuid,
     .value = NiahValue::kUuid},
    {.name = "niah_multivalue", .values = 4},
    {.name = "niah_multiquery", .keys = 4, .queries = 4},
};

struct Hidden {
  std::string key;
  std::string value;
};

// Draws keys and values that differ from all before them.
class Draws {
 public:
  Draws(const NiahKind& kind, Random& random) : kind_(kind), random_(random) {}

  std::string key() {
    return draw_new(taken_, [&] {
      return kind_.key == NiahName::kWord ? draw_word_key(random_) : draw_uuid(random_);
    });
  }
  std::string value() {
    return draw_new(taken_, [&] {
      return kind_.value == NiahValue::kNumber ? draw_digits(7, random_) : draw_uuid(random_);
    });
  }

 private:
  const NiahKind& kind_;
  Random& random_;
  std::set<std::string> taken_;
};

std::string noun(const NiahKind& kind) {
  return kind.value == NiahValue::kNumber ? "number" : "uuid";
}

std::string needle(const NiahKind& kind, const Hidden& hidden) {
  return "One of the special magic " + noun(kind) + "s for " + hidden.key + " is: " + hidden.value +
         ".";
}

// "a", "a and b", "a, b, and c".
std::string listed(const std::vector<std::string>& words) {
  std::string text = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    text += last ? (words.size() > 2 ? ", and " : " and ") : ", ";
    text += words[i];
  }
  return text;
}

struct Asked {
  std::vector<Hidden> hidden;  // what is asked for comes first
  std::vector<std::string> keys;
  std::vector<std::string> values;
};

Asked draw_hidden(const NiahKind& kind, Draws& draws) {
  Asked asked;
  for (int k = 0; k < kind.keys; ++k) {
    const std::string key = draws.key();
    if (k < kind.queries) asked.keys.push_back(key);
    for (int v = 0; v < kind.values; ++v) {
      asked.hidden.push_back({key, draws.value()});
      if (k < kind.queries) asked.values.push_back(asked.hidden.back().value);
    }
  }
  return asked;
}

PiecesText text_of(const NiahKind& kind, const Asked& asked) {
  const bool one = asked.values.size() == 1;
  const std::string what = noun(kind);
  const std::string keys = listed(asked.keys);
  PiecesText text;
  text.opening = kind.keys * kind.values == 1 && kind.haystack != NiahHaystack::kNeedles
                     ? "A special magic " + what +
                           " is hidden within the following text. Make sure to memorize it.\n"
                     : "Some special magic " + what +
                           "s are hidden within the following text. Make sure to memorize them.\n";
  text.closing =
      (one ? "What is the special magic " + what : "What are all the special magic " + what + "s") +
      " for " + keys + " mentioned in the provided text?";
  text.answer_prefix = "The special magic " + what + (one ? "" : "s") + " for " + keys +
                       " mentioned in the provided text " + (one ? "is" : "are");
  text.golds = asked.values;
  text.gold_answer = listed(asked.values);
  return text;
}

// Needles that nobody asks for, drawn as they are needed.
Filler needles_nobody_asks_for(const NiahKind& kind, std::string_view key, std::uint64_t seed,
                               const Asked& asked, const Tokenizer& tokenizer) {
  struct Made {
    NiahKind kind;
    Random random;
    std::set<std::string> taken;
    std::vector<std::string> sentences;
    std::vector<std::size_t> tokens;
    const Tokenizer& tokenizer;

    void grow(std::size_t n) {
      while (sentences.size() < n) {
        Draws draws(kind, random);
        const Hidden hidden{draw_new(taken, [&] { return draws.key(); }),
                            draw_new(taken, [&] { return draws.value(); })};
        const std::string sentence = needle(kind, hidden);
        sentences.push_back(sentence + " ");
        tokens.push_back(tokenizer.encode(" " + sentence, SpecialTokens::kAsText).size());
      }
    }
  };
  const auto made = std::make_shared<Made>(
      Made{kind, Random(seed, std::string(key) + ":haystack"), {}, {}, {}, tokenizer});
  for (const Hidden& hidden : asked.hidden) {
    made->taken.insert(hidden.key);
    made->taken.insert(hidden.value);
  }
  return {[made](std::size_t i) {
            made->grow(i + 1);
            return made->sentences[i];
          },
          [made](std::size_t i) {
            made->grow(i + 1);
            return made->tokens[i];
          }};
}

Haystack haystack_of(const NiahKind& kind, const GeneratedOptions& options,
                     const Tokenizer& tokenizer) {
  if (kind.haystack != NiahHaystack::kText) return Haystack::noise(tokenizer);
  if (options.haystack.empty()) {
    throw UsageError(std::string(kind.name) +
                     " hides things in real text: give --haystack FOLDER (or a file), or run "
                     "scripts/prepare-texts once for three books");
  }
  return Haystack::from_path(options.haystack, tokenizer);
}

}  // namespace

std::span<const NiahKind> niah_kinds() { return kKinds; }

Dataset make_niah(const NiahKind& kind, const GeneratedOptions& options,
                  const Tokenizer& tokenizer) {
  const HaystackSections sections(haystack_of(kind, options, tokenizer), options);
  const auto draw = [&](const DrawContext& context) {
    Draws draws(kind, context.random);
    const Asked asked = draw_hidden(kind, draws);
    PiecesText text = text_of(kind, asked);
    std::vector<double> depths = spread_depths_percent(asked.hidden.size(), context.random);
    context.random.shuffle(depths);
    if (!options.depths_percent.empty()) {
      depths.front() = depth_percent(options, context.number, context.random);
    }
    for (std::size_t i = 0; i < asked.hidden.size(); ++i) {
      text.inserts.push_back(
          {depths[i] / 100, needle(kind, asked.hidden[i]), i < asked.values.size()});
    }
    GeneratedPrompt prompt;
    if (asked.values.size() == 1) prompt.tags["depth_percent"] = percent_text(depths.front());
    const std::size_t first = sections.first_sentence(context.number);
    const Haystack& haystack = sections.haystack;
    const bool in_needles = kind.haystack == NiahHaystack::kNeedles;
    prompt.cluster_key = in_needles ? "" : sections.cluster_key(context.number);
    prompt.prompt = growing(
        std::move(text),
        in_needles ? needles_nobody_asks_for(kind, context.key, options.seed, asked, tokenizer)
                   : sentences_from(haystack, first),
        [&haystack, first, in_needles](std::size_t pieces) {
          return haystack_words(haystack, in_needles ? 0 : first + pieces);
        });
    return prompt;
  };
  return generate({std::string(kind.name), "1", kNewTokens}, options, tokenizer, draw);
}

}  // namespace kvscope
