#include "datasets/text/text_windows.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

// Consecutive runs of `context` are the windows.
std::vector<std::int32_t> tokens_of(std::string_view text, int context, const Tokenizer& tokenizer,
                                    WindowConvention convention) {
  if (convention == WindowConvention::kLlamaCpp) return llama_cpp_tokens(text, context, tokenizer);
  std::vector<std::int32_t> ids = tokenizer.encode(text, SpecialTokens::kAsText);
  if (!tokenizer.adds_bos() || !tokenizer.bos()) return ids;
  const auto text_tokens = static_cast<std::size_t>(context) - 1;
  std::vector<std::int32_t> with_bos;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % text_tokens == 0) with_bos.push_back(*tokenizer.bos());
    with_bos.push_back(ids[i]);
  }
  return with_bos;
}

}  // namespace

std::vector<std::int32_t> llama_cpp_tokens(std::string_view text, int context,
                                           const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = tokenizer.encode(text, SpecialTokens::kAsText);
  if (!tokenizer.adds_bos() || !tokenizer.bos()) return ids;
  ids.insert(ids.begin(), *tokenizer.bos());
  for (std::size_t i = 0; i < ids.size(); i += static_cast<std::size_t>(context)) {
    ids[i] = *tokenizer.bos();
  }
  return ids;
}

Dataset load_text_windows(const std::filesystem::path& file, int context, int limit,
                          const Tokenizer& tokenizer, WindowConvention convention) {
  if (context < 4) {
    throw UsageError("a perplexity window of " + std::to_string(context) +
                     " tokens is too short: half of it is scored, give --context 4 or more");
  }
  if (limit < 0) throw UsageError("the number of perplexity windows cannot be negative");

  const std::vector<std::int32_t> ids =
      tokens_of(read_text_file(file), context, tokenizer, convention);
  const auto window_tokens = static_cast<std::size_t>(context);
  std::size_t n_windows = ids.size() / window_tokens;
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
  const bool llama_cpp = convention == WindowConvention::kLlamaCpp;
  if (llama_cpp) data.version += " convention=llama.cpp";
  for (std::size_t i = 0; i < n_windows; ++i) {
    TextWindow window;
    window.key = "window=" + std::to_string(i);
    window.cluster_key = data.name + ":block=" + std::to_string(i / block);
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(i * window_tokens);
    window.ids.assign(first, first + context);
    window.first_scored = llama_cpp ? llama_cpp_first_scored(context) : context / 2;
    window.input_sha256 = input_hash(window.ids, {}, {});
    data.windows.push_back(std::move(window));
  }
  return data;
}

}  // namespace kvscope
