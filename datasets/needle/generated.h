// What the seeded generators of prompts have in common: lengths × samples, keys, clusters, tags.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/base/random.h"
#include "datasets/needle/fill.h"
#include "datasets/needle/haystack.h"
#include "datasets/sample.h"

namespace kvscope {

struct GeneratedOptions {
  std::vector<int> lengths = {1024};  // of the prompt, template included: exactly so many tokens
  int samples_per_length = 20;
  // In percent, used in turn; empty: the generator's own.
  std::vector<double> depths_percent = {};
  // Folder of .txt files or one file for the kinds that hide things in real text.
  std::filesystem::path haystack = {};
  bool plain_template = false;  // text without turns, also where the model has a chat template
  std::uint64_t seed = 1;
};

// One sample as a generator draws it. `number` counts the samples of a length.
struct GeneratedPrompt {
  GrowingPrompt prompt;
  std::string cluster_key = {};  // empty: the sample's own key
  std::map<std::string, std::string> tags = {};
};
struct DrawContext {
  std::string_view key;
  int length = 0;
  int number = 0;
  Random& random;  // of this sample alone
};
using DrawPrompt = std::function<GeneratedPrompt(const DrawContext& context)>;

struct GeneratedKind {
  std::string name;     // of the data set, and the start of every sample's key
  std::string version;  // of the generator, with its options
  int max_new_tokens = 0;
};

// Samples in the order of lengths. Throws UsageError for absurd options.
Dataset generate(const GeneratedKind& kind, const GeneratedOptions& options,
                 const Tokenizer& tokenizer, const DrawPrompt& draw);

// A haystack and the sections of it that samples read in turn, the same at every length.
struct HaystackSections {
  HaystackSections(Haystack text, const GeneratedOptions& options);

  Haystack haystack;
  std::size_t first_sentence(int number) const;
  // Samples that read the same text are one draw; noise is none.
  std::string cluster_key(int number) const;

 private:
  std::vector<std::size_t> firsts_;
};

// In percent: the i-th of the given ones, or of 40 even ones that RULER draws from.
double depth_percent(const GeneratedOptions& options, int number, Random& random);
// `n` different ones of these 40, ascending.
std::vector<double> spread_depths_percent(std::size_t n, Random& random);

// In tenths of a percent, printed without the locale.
std::string percent_text(double percent);

}  // namespace kvscope
