#include "datasets/needle/key_value_retrieval.h"

#include <memory>
#include <set>
#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/pieces.h"

namespace kvscope {
namespace {

struct Pairs {
  PairStyle style;
  const Tokenizer& tokenizer;
  Random random;
  std::set<std::string> taken = {};
  std::string answer = {};
  std::vector<std::string> texts = {};
  std::vector<std::size_t> tokens = {};

  std::string draw_key() {
    return draw_new(taken, [&] {
      return style == PairStyle::kUuid ? draw_uuid(random)
                                       : draw_word_key(random) + draw_letters(2, 'a', random);
    });
  }
  // Two keys may have the same value, but no other one has the asked key's.
  std::string draw_value() {
    std::string value;
    do {
      value = style == PairStyle::kUuid ? draw_uuid(random) : draw_digits(5, random);
    } while (value == answer);
    return value;
  }
  static std::string pair(const std::string& key, const std::string& value) {
    return "\"" + key + "\": \"" + value + "\"";
  }
  void grow(std::size_t n) {
    while (texts.size() < n) {
      const std::string key = draw_key();
      texts.push_back(pair(key, draw_value()) + ", ");
      tokens.push_back(tokenizer.encode(" " + texts.back(), SpecialTokens::kAsText).size());
    }
  }
};

int new_tokens(PairStyle style) { return style == PairStyle::kUuid ? 50 : 12; }

}  // namespace

Dataset make_key_value_retrieval(PairStyle style, const GeneratedOptions& options,
                                 const Tokenizer& tokenizer) {
  const Haystack noise = Haystack::noise(tokenizer);
  const auto draw = [&](const DrawContext& context) {
    const double depth = depth_percent(options, context.number, context.random);
    const auto pairs = std::make_shared<Pairs>(Pairs{style, tokenizer, context.random});
    const std::string key = pairs->draw_key();
    std::string value = pairs->draw_value();
    pairs->answer = value;
    PiecesText text;
    text.opening = "Find the value of a key in the following JSON object.\n";
    text.list_begin = "{";
    text.list_end = "}";
    text.inserts = {{depth / 100, Pairs::pair(key, value), true}};
    text.closing = "What is the value of the key \"" + key + "\" in the JSON object above?";
    text.answer_prefix = "The value of the key \"" + key + "\" is";
    text.golds = {value};
    const Filler filler = {[pairs](std::size_t i) {
                             pairs->grow(i + 1);
                             return pairs->texts[i];
                           },
                           [pairs](std::size_t i) {
                             pairs->grow(i + 1);
                             return pairs->tokens[i];
                           }};
    return GeneratedPrompt{growing(std::move(text), filler,
                                   [&noise](std::size_t) { return haystack_words(noise, 0); }),
                           {},
                           {{"depth_percent", percent_text(depth)}}};
  };
  const bool uuid = style == PairStyle::kUuid;
  return generate({"kv_retrieval", uuid ? "1 pairs=uuid" : "1 pairs=short", new_tokens(style)},
                  options, tokenizer, draw);
}

}  // namespace kvscope
