#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/niah.h"
#include "datasets/needle/pieces.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 8;  // five digits, the space before them, and what the model adds

// The i-th of n depths that are spread evenly, unless others are given.
double depth_of(const GeneratedOptions& options, const DrawContext& context) {
  if (!options.depths_percent.empty()) {
    return depth_percent(options, context.number, context.random);
  }
  const int n = options.samples_per_length;
  return n == 1 ? 50.0 : 100.0 * context.number / (n - 1);
}

}  // namespace

Dataset make_passkey(const GeneratedOptions& options, const Tokenizer& tokenizer) {
  const HaystackSections sections(options.haystack.empty()
                                      ? Haystack::noise(tokenizer)
                                      : Haystack::from_path(options.haystack, tokenizer),
                                  options);
  const Haystack& haystack = sections.haystack;
  const auto draw = [&](const DrawContext& context) {
    const std::string number = draw_digits(5, context.random);
    const double depth = depth_of(options, context);
    PiecesText text;
    if (!options.plain_template) {
      text.opening = "A pass key is hidden within the following text. Make sure to memorize it.\n";
    }
    text.separator = options.plain_template ? "\n\n" : "\n";
    text.inserts = {{depth / 100,
                     "The pass key is " + number + ". Remember it. " + number + " is the pass key.",
                     true}};
    text.closing = "What is the pass key?";
    text.answer_prefix = "The pass key is";
    text.golds = {number};
    const std::size_t first = sections.first_sentence(context.number);
    return GeneratedPrompt{growing(std::move(text), sentences_from(haystack, first),
                                   [&haystack, first](std::size_t pieces) {
                                     return haystack_words(haystack, first + pieces);
                                   }),
                           sections.cluster_key(context.number),
                           {{"depth_percent", percent_text(depth)}}};
  };
  return generate(
      {"passkey", haystack.is_noise() ? "1 haystack=noise" : "1 haystack=text", kNewTokens},
      options, tokenizer, draw);
}

}  // namespace kvscope
