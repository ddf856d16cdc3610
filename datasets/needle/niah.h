// Values hidden in a long text and asked for at its end: RULER's eight retrieval kinds (Hsieh et
// al. 2024), the pass key of Mohtashami and Jaggi 2023, and grids of depth × length (Kamradt 2023).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "datasets/needle/generated.h"

namespace kvscope {

enum class NiahHaystack { kNoise, kText, kNeedles };  // kNeedles: further needles, nobody asks for
enum class NiahName { kWord, kUuid };
enum class NiahValue { kNumber, kUuid };  // of seven digits

struct NiahKind {
  std::string_view name;  // RULER's
  NiahHaystack haystack = NiahHaystack::kText;
  NiahName key = NiahName::kWord;
  NiahValue value = NiahValue::kNumber;
  int keys = 1;     // hidden, where the haystack is not needles itself
  int values = 1;   // of each key
  int queries = 1;  // keys that are asked for
};
std::span<const NiahKind> niah_kinds();  // niah_single_1 … niah_multiquery

// Depths are drawn from 40 even ones, each value's without replacement; with depths_percent, what
// is asked for stands at the given ones in turn. Kinds in real text need options.haystack; a
// section of it is a cluster. Wording: of this project's needle task. Throws UsageError, also where
// the haystack is missing, DataError or IoError for it.
Dataset make_niah(const NiahKind& kind, const GeneratedOptions& options,
                  const Tokenizer& tokenizer);

// A five-digit pass key in noise, or in options.haystack. Depths as given, or spread evenly over a
// length's samples, both ends included.
Dataset make_passkey(const GeneratedOptions& options, const Tokenizer& tokenizer);

// A value of seven digits at every depth × length, `per_cell` samples of each;
// options.depths_percent are the grid's. Noise without options.haystack.
Dataset make_niah_grid(int per_cell, GeneratedOptions options, const Tokenizer& tokenizer);

// `n` depths in percent, ends included: evenly spread, or dense at both ends as the logistic curve
// 100 / (1 + exp(-0.1 (x - 50))) is, with its ends put to 0 and 100.
enum class DepthSpacing { kLinear, kSigmoid };
std::vector<double> grid_depths_percent(int n, DepthSpacing spacing);
// `n` lengths from `least` to `most`, evenly spread.
std::vector<int> grid_lengths(int n, int least, int most);

}  // namespace kvscope
