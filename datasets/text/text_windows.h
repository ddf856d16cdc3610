// A text cut into windows, for perplexity.
#pragma once

#include <filesystem>

#include "datasets/sample.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

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
                          const Tokenizer& tokenizer);

inline constexpr int kMaxTextClusters = 32;

}  // namespace kvscope
