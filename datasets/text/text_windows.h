// A text cut into windows, for perplexity.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Which tokens make a window of n and which of them are scored.
enum class WindowConvention {
  kSecondHalf,  // the BOS token stands before the window's text; tokens n/2 … n-1 are scored
  kLlamaCpp,    // llama-perplexity's: it takes the place of the first token; tokens n/2+1 … n-1
};

// The first `limit` windows (0: all) of `context` tokens each, one after the other without overlap;
// an incomplete last one is dropped. A window starts with the model's BOS token if the model wants
// one. Throws IoError or DataError for the file (read_text_file), DataError when the text is
// shorter than one window, UsageError for a context below 4.
//
// Clusters: neighbouring windows of a text share their subject, so they are no independent draws;
// but a single text as one cluster has no standard error at all. The windows are therefore
// clustered in blocks of neighbours, at most kMaxTextClusters of them: enough for a t interval (the
// gate wants 10) and as long as that allows.
Dataset load_text_windows(const std::filesystem::path& file, int context, int limit,
                          const Tokenizer& tokenizer,
                          WindowConvention convention = WindowConvention::kSecondHalf);

// The text's tokens such that consecutive runs of `context` of them are llama-perplexity's windows:
// tokenised once, special tokens as plain text; where the model wants a BOS token, one in front,
// and one in the place of every window's first token.
std::vector<std::int32_t> llama_cpp_tokens(std::string_view text, int context,
                                           const Tokenizer& tokenizer);
inline int llama_cpp_first_scored(int context) { return context / 2 + 1; }

inline constexpr int kMaxTextClusters = 32;

}  // namespace kvscope
