// Texts cut into windows, for perplexity.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/sample.h"
#include "datasets/text/documents.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// Which tokens make a window of n and which of them are scored.
enum class WindowConvention {
  kSecondHalf,  // the BOS token stands before the window's text; tokens n/2 … n-1 are scored
  kLlamaCpp,    // llama-perplexity's: it takes the place of the first token; tokens n/2+1 … n-1
  kStream,      // consecutive windows, all tokens but the first are scored
  // A window begins `stride` tokens after the one before; of the first all tokens but the first are
  // scored, of the others the last `stride`: each token of the text once, with the longest context.
  kSliding,
  // lm-eval's rolling windows: each token of a document once, the first one after BOS (or the
  // end-of-text token where there is none); the last window is filled up with tokens scored before.
  kLmEval,
};

struct WindowOptions {
  int context = 1024;  // tokens of a window
  int limit = 0;       // windows, taken from the documents in turn; 0: all
  WindowConvention convention = WindowConvention::kSecondHalf;
  int stride = 0;  // of kSliding
  TextLayout layout = TextLayout::kPlain;
  std::string where = {};  // the text in messages; empty: its name
};

// An incomplete last window is dropped, except in kLmEval. A window starts with the model's BOS
// token if the model wants one. Documents without a whole window are left out, and a note says how
// many. Throws DataError when that leaves nothing, UsageError for absurd options.
//
// Clusters: a document. Where there is one alone: neighbouring windows of a text share their
// subject, so they are no independent draws; but a single text as one cluster has no standard error
// at all. Its windows are therefore clustered in blocks of neighbours, at most kMaxTextClusters of
// them: enough for a t interval (the gate wants 10) and as long as that allows.
Dataset make_text_windows(std::string_view name, const std::vector<TextDocument>& documents,
                          const WindowOptions& options, const Tokenizer& tokenizer);

// The same for a file or folder, with its name. Throws IoError or DataError too (load_documents).
Dataset load_text_windows(const std::filesystem::path& path, const WindowOptions& options,
                          const Tokenizer& tokenizer);

// The text's tokens such that consecutive runs of `context` of them are llama-perplexity's windows:
// tokenised once, special tokens as plain text; where the model wants a BOS token, one in front,
// and one in the place of every window's first token.
std::vector<std::int32_t> llama_cpp_tokens(std::string_view text, int context,
                                           const Tokenizer& tokenizer);
inline int llama_cpp_first_scored(int context) { return context / 2 + 1; }

inline constexpr int kMaxTextClusters = 32;

}  // namespace kvscope
