#include <algorithm>
#include <cmath>
#include <utility>

#include "datasets/needle/names.h"
#include "datasets/needle/niah.h"
#include "datasets/needle/pieces.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr int kNewTokens = 16;  // seven digits, the space before them, and what the model adds

}  // namespace

std::vector<double> grid_depths_percent(int n, DepthSpacing spacing) {
  if (n < 1) throw UsageError("niah: a grid has at least 1 depth");
  if (n == 1) return {50.0};
  std::vector<double> depths;
  for (int i = 0; i < n; ++i) {
    const double x = 100.0 * i / (n - 1);
    const bool end = i == 0 || i == n - 1;
    const double depth =
        spacing == DepthSpacing::kLinear || end ? x : 100.0 / (1.0 + std::exp(-0.1 * (x - 50.0)));
    // In tenths: what the standard library leaves open about exp() is far below that.
    depths.push_back(std::round(depth * 10) / 10);
  }
  return depths;
}

std::vector<int> grid_lengths(int n, int least, int most) {
  if (n < 1 || least > most || (n == 1 && least != most)) {
    throw UsageError("niah: " + std::to_string(n) + " lengths from " + std::to_string(least) +
                     " to " + std::to_string(most) + " tokens make no grid");
  }
  std::vector<int> lengths;
  for (int i = 0; i < n; ++i) {
    const auto step = n == 1 ? 0 : std::int64_t{most - least} * i / (n - 1);
    lengths.push_back(least + static_cast<int>(step));
  }
  return lengths;
}

Dataset make_niah_grid(int per_cell, GeneratedOptions options, const Tokenizer& tokenizer) {
  if (per_cell < 1) throw UsageError("niah needs at least 1 sample of each cell");
  if (options.depths_percent.empty()) throw UsageError("niah needs at least one depth");
  options.samples_per_length = per_cell * static_cast<int>(options.depths_percent.size());
  const HaystackSections sections(options.haystack.empty()
                                      ? Haystack::noise(tokenizer)
                                      : Haystack::from_path(options.haystack, tokenizer),
                                  options);
  const Haystack& haystack = sections.haystack;
  const auto draw = [&](const DrawContext& context) {
    const std::string key = draw_word_key(context.random);
    const std::string value = draw_digits(7, context.random);
    const double depth = depth_percent(options, context.number, context.random);
    PiecesText text;
    text.opening =
        "A special magic number is hidden within the following text. Make sure to memorize it.\n";
    text.inserts = {
        {depth / 100, "One of the special magic numbers for " + key + " is: " + value + ".", true}};
    text.closing = "What is the special magic number for " + key +
                   " mentioned in the provided "
                   "text?";
    text.answer_prefix =
        "The special magic number for " + key + " mentioned in the provided text is";
    text.golds = {value};
    const std::size_t first = sections.first_sentence(context.number);
    return GeneratedPrompt{growing(std::move(text), sentences_from(haystack, first),
                                   [&haystack, first](std::size_t pieces) {
                                     return haystack_words(haystack, first + pieces);
                                   }),
                           sections.cluster_key(context.number),
                           {{"depth_percent", percent_text(depth)}}};
  };
  return generate(
      {"niah", haystack.is_noise() ? "1 haystack=noise" : "1 haystack=text", kNewTokens}, options,
      tokenizer, draw);
}

}  // namespace kvscope
