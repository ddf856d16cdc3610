#include "datasets/text/text_windows.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

using Ids = std::vector<std::int32_t>;

// One window and which of the document's tokens it scores.
struct Cut {
  Ids ids;
  int first_scored = 1;
  std::size_t scored_begin = 0;
  std::size_t scored_end = 0;
};

void check(const WindowOptions& options) {
  if (options.context < 4) {
    throw UsageError("a perplexity window of " + std::to_string(options.context) +
                     " tokens is too short: half of it is scored, give --context 4 or more");
  }
  if (options.limit < 0) throw UsageError("the number of perplexity windows cannot be negative");
  const bool sliding = options.convention == WindowConvention::kSliding;
  if (sliding && (options.stride < 1 || options.stride >= options.context)) {
    throw UsageError("a stride of " + std::to_string(options.stride) +
                     " tokens: it must be from 1 to one less than the window's " +
                     std::to_string(options.context));
  }
}

Ids slice(const Ids& ids, std::size_t begin, std::size_t end) {
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin),
          ids.begin() + static_cast<std::ptrdiff_t>(end)};
}

// Windows of `context` that begin every `stride` text tokens.
std::vector<Cut> fixed_windows(const Ids& text, const WindowOptions& options,
                               const Tokenizer& tokenizer) {
  const bool bos = tokenizer.adds_bos() && tokenizer.bos();
  const bool llama_cpp = options.convention == WindowConvention::kLlamaCpp;
  const auto context = static_cast<std::size_t>(options.context);
  // BOS stands before the window's text, or, as llama.cpp has it, in its first token's place: then
  // the text is behind one more BOS.
  const std::size_t own = bos && !llama_cpp ? context - 1 : context;
  const std::size_t lead = bos ? 1 : 0;
  const std::size_t n_tokens = text.size() + (llama_cpp ? lead : 0);
  const bool sliding = options.convention == WindowConvention::kSliding;
  const std::size_t stride = sliding ? static_cast<std::size_t>(options.stride) : own;
  std::vector<Cut> cuts;
  for (std::size_t at = 0; at + own <= n_tokens; at += stride) {
    Cut cut;
    std::size_t first = 1;
    if (options.convention == WindowConvention::kSecondHalf) first = context / 2;
    if (llama_cpp) first = static_cast<std::size_t>(llama_cpp_first_scored(options.context));
    if (sliding && at > 0) first = context - stride;
    cut.first_scored = static_cast<int>(first);
    // Text token of a window's token i: at + i - lead.
    cut.scored_begin = at + first - lead;
    cut.scored_end = at + context - lead;
    cut.ids = slice(text, llama_cpp && at > 0 ? at - lead : at, cut.scored_end);
    if (bos && llama_cpp && at > 0) cut.ids.front() = *tokenizer.bos();
    if (bos && !(llama_cpp && at > 0)) cut.ids.insert(cut.ids.begin(), *tokenizer.bos());
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

std::vector<Cut> rolling_windows(const Ids& text, const WindowOptions& options,
                                 const Tokenizer& tokenizer) {
  const std::optional<std::int32_t> first = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
  if (!first) {
    throw UsageError(
        "convention=lm-eval scores the first token after BOS or end of text, and this model has "
        "neither");
  }
  const std::size_t most = static_cast<std::size_t>(options.context) - 1;  // predictions
  Ids all = {*first};
  all.insert(all.end(), text.begin(), text.end());
  std::vector<Cut> cuts;
  for (std::size_t at = 0; at < text.size(); at += most) {
    const std::size_t end = std::min(at + most, text.size());
    const std::size_t begin = end > most ? end - most : 0;  // in `all`, of the window's context
    cuts.push_back({slice(all, begin, end + 1), static_cast<int>(at + 1 - begin), at, end});
  }
  return cuts;
}

// Words and bytes behind stretches of a document's tokens.
class OriginalText {
 public:
  OriginalText(const TextDocument& document, const Ids& ids, bool by_share,
               const Tokenizer& tokenizer)
      : document_(document), n_tokens_(ids.size()), by_share_(by_share) {
    if (by_share) return;
    ends_.reserve(ids.size() + 1);
    ends_.push_back(0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ends_.push_back(ends_.back() + tokenizer.decode(std::span(ids).subspan(i, 1)).size());
    }
  }

  void count(const Cut& cut, TextWindow& window) const {
    if (by_share_) {
      const std::string& original =
          document_.original.empty() ? document_.text : document_.original;
      const double share =
          static_cast<double>(cut.scored_end - cut.scored_begin) / static_cast<double>(n_tokens_);
      window.scored_words = share * static_cast<double>(whitespace_words(original));
      window.scored_bytes = share * static_cast<double>(original.size());
      return;
    }
    const std::size_t begin = std::min(ends_[cut.scored_begin], document_.text.size());
    const std::size_t end = std::min(ends_[cut.scored_end], document_.text.size());
    window.scored_bytes = static_cast<double>(end - begin);
    std::size_t words = 0;  // that begin in the stretch
    for (std::size_t i = begin; i < end; ++i) {
      words += !is_space(document_.text[i]) && (i == 0 || is_space(document_.text[i - 1]));
    }
    window.scored_words = static_cast<double>(words);
  }

 private:
  static bool is_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }

  const TextDocument& document_;
  std::size_t n_tokens_;
  bool by_share_;
  std::vector<std::size_t> ends_;  // [tokens + 1] bytes before each token
};

std::string version_of(const WindowOptions& options) {
  std::string version = "1 context=" + std::to_string(options.context);
  switch (options.convention) {
    case WindowConvention::kSecondHalf:
      break;
    case WindowConvention::kLlamaCpp:
      version += " convention=llama.cpp";
      break;
    case WindowConvention::kStream:
      version += " convention=stream";
      break;
    case WindowConvention::kSliding:
      version += " convention=sliding stride=" + std::to_string(options.stride);
      break;
    case WindowConvention::kLmEval:
      version += " convention=lm-eval";
      break;
  }
  if (options.layout == TextLayout::kWikitext) version += " layout=wikitext";
  return version;
}

struct CutDocument {
  const TextDocument* document;
  Ids ids;
  std::vector<Cut> cuts;
};

// One window from each document in turn; indices of (document, window).
std::vector<std::pair<std::size_t, std::size_t>> in_turn(const std::vector<CutDocument>& documents,
                                                         std::size_t most) {
  std::vector<std::pair<std::size_t, std::size_t>> chosen;
  bool more = true;
  for (std::size_t round = 0; more; ++round) {
    more = false;
    for (std::size_t d = 0; d < documents.size(); ++d) {
      if (round >= documents[d].cuts.size()) continue;
      if (most > 0 && chosen.size() == most) return chosen;
      chosen.emplace_back(d, round);
      more = true;
    }
  }
  return chosen;
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

Dataset make_text_windows(std::string_view name, const std::vector<TextDocument>& documents,
                          const WindowOptions& options, const Tokenizer& tokenizer) {
  check(options);
  std::vector<CutDocument> cut;
  std::size_t n_tokens = 0;
  for (const TextDocument& document : documents) {
    CutDocument one{&document, tokenizer.encode(document.text, SpecialTokens::kAsText), {}};
    n_tokens += one.ids.size();
    one.cuts = options.convention == WindowConvention::kLmEval
                   ? rolling_windows(one.ids, options, tokenizer)
                   : fixed_windows(one.ids, options, tokenizer);
    if (!one.cuts.empty()) cut.push_back(std::move(one));
  }
  if (cut.empty()) {
    throw DataError((options.where.empty() ? std::string(name) : options.where) + " has " +
                    std::to_string(n_tokens) + " tokens, less than one window of " +
                    std::to_string(options.context) +
                    (documents.size() > 1 ? " in any document" : "") +
                    ": give a longer text or a smaller --context");
  }
  const auto chosen = in_turn(cut, static_cast<std::size_t>(options.limit));
  const std::size_t block = (chosen.size() + kMaxTextClusters - 1) / kMaxTextClusters;

  Dataset data;
  data.name = std::string(name);
  data.version = version_of(options);
  if (cut.size() < documents.size()) {
    data.notes.push_back(data.name + ": " + std::to_string(documents.size() - cut.size()) + " of " +
                         std::to_string(documents.size()) +
                         " documents are shorter than one window and left out");
  }
  std::vector<OriginalText> originals;
  for (const CutDocument& one : cut) {
    const bool by_share =
        !one.document->original.empty() || options.convention == WindowConvention::kLmEval;
    originals.emplace_back(*one.document, one.ids, by_share, tokenizer);
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto [d, w] = chosen[i];
    Cut& from = cut[d].cuts[w];
    TextWindow window;
    const std::string number = "window=" + std::to_string(w);
    window.key = documents.size() == 1 ? number : cut[d].document->name + ":" + number;
    window.cluster_key = documents.size() == 1 ? data.name + ":block=" + std::to_string(i / block)
                                               : cut[d].document->name;
    originals[d].count(from, window);
    window.ids = std::move(from.ids);
    window.first_scored = from.first_scored;
    window.input_sha256 = input_hash(window.ids, {}, {});
    data.windows.push_back(std::move(window));
  }
  return data;
}

Dataset load_text_windows(const std::filesystem::path& path, const WindowOptions& options,
                          const Tokenizer& tokenizer) {
  check(options);  // before a large file is read
  const auto folder = path.filename().empty() ? path.parent_path() : path;
  WindowOptions named = options;
  named.where = path.string();
  return make_text_windows(folder.stem().string(), load_documents(path, options.layout), named,
                           tokenizer);
}

}  // namespace kvscope
