// Needle in a haystack: a number hidden in a long text, asked for at its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

enum class NeedleKind {
  kMagicNumber,  // one number for one word
  kKeyValue,     // several words, each with its number; one word is asked for
};

struct NeedleOptions {
  NeedleKind kind = NeedleKind::kMagicNumber;
  // Folder of .txt files (read in the order of their names) or one file. Empty: noise, five short
  // sentences repeated.
  std::filesystem::path haystack;
  std::vector<int> lengths = {1024};  // of the prompt, in tokens; never exceeded
  // What is left behind the last whole word is filled too, so that a prompt has its length exactly.
  bool exact = false;
  bool plain_template = false;  // text without turns, also where the model has a chat template
  int samples_per_length = 20;
  // In percent of the haystack, used in turn. Empty: spread evenly over the samples of a length, 0
  // and 100 included.
  std::vector<double> depths_percent;
  int keys = 4;  // of kKeyValue: how many words have a number
  std::uint64_t seed = 1;
};

// Samples in the order of lengths, then of depths. Prompts are as near to their length as whole
// words allow, unless `exact`. The needle stands between two sentences; numbers have five digits. A
// sample's cluster is its section of the haystack, shared by the samples of every length that read
// the same section; on noise every sample is its own cluster.
//
// The wording is the one of RULER (Hsieh et al. 2024), in which a small model still passes with the
// full cache. Throws UsageError for absurd options, DataError or IoError for the haystack.
Dataset make_needle(const NeedleOptions& options, const Tokenizer& tokenizer);

}  // namespace kvscope
