#include "datasets/text/text_windows.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {

Dataset load_text_windows(const std::filesystem::path& file, int context, int limit,
                          const Tokenizer& tokenizer) {
  if (context < 4) {
    throw UsageError("a perplexity window of " + std::to_string(context) +
                     " tokens is too short: half of it is scored, give --context 4 or more");
  }
  if (limit < 0) throw UsageError("the number of perplexity windows cannot be negative");

  const std::vector<std::int32_t> ids =
      tokenizer.encode(read_text_file(file), SpecialTokens::kAsText);
  const bool bos = tokenizer.adds_bos() && tokenizer.bos().has_value();
  const std::size_t text_tokens = static_cast<std::size_t>(context) - (bos ? 1 : 0);
  std::size_t n_windows = ids.size() / text_tokens;
  if (n_windows == 0) {
    throw DataError(file.string() + " has " + std::to_string(ids.size()) +
                    " tokens, less than one window of " + std::to_string(context) +
                    ": give a longer text or a smaller --context");
  }
  if (limit > 0) n_windows = std::min(n_windows, static_cast<std::size_t>(limit));
  const std::size_t block = (n_windows + kMaxTextClusters - 1) / kMaxTextClusters;

  Dataset data;
  data.name = file.stem().string();
  data.version = "1 context=" + std::to_string(context);
  for (std::size_t i = 0; i < n_windows; ++i) {
    TextWindow window;
    window.key = "window=" + std::to_string(i);
    window.cluster_key = data.name + ":block=" + std::to_string(i / block);
    if (bos) window.ids.push_back(*tokenizer.bos());
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(i * text_tokens);
    window.ids.insert(window.ids.end(), first, first + static_cast<std::ptrdiff_t>(text_tokens));
    window.input_sha256 = input_hash(window.ids, {}, {});
    data.windows.push_back(std::move(window));
  }
  return data;
}

}  // namespace kvscope
