#include "runner/tokenizer/pretokenizer_chain.h"

#include <string_view>

#include "runner/base/error.h"
#include "runner/tokenizer/byte_symbols.h"
#include "runner/tokenizer/json_fields.h"
#include "runner/tokenizer/split_rule.h"
#include "runner/tokenizer/utf8.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;
using Steps = std::vector<PretokenizerChain::Step>;

constexpr int kMaxDepth = 16;  // of sequences in sequences
// Radford et al. 2019, as published with the model.
constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PretokenizerChain::Step split_step(SplitRule rule) {
  return [rule = std::move(rule)](std::vector<Piece> pieces) {
    std::vector<Piece> out;
    for (const Piece& piece : pieces) rule.apply(piece, out);
    return out;
  };
}

PretokenizerChain::Step each_piece(std::function<void(Piece&)> change) {
  return [change = std::move(change)](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) change(piece);
    return pieces;
  };
}

void read_byte_level(const Json& description, Steps& steps) {
  if (bool_or(description, "add_prefix_space", true)) {
    steps.push_back(each_piece([](Piece& piece) {
      if (piece.text.empty() || piece.text[0] == ' ' || piece.start == PieceStart::kContinued)
        return;
      piece.text.insert(piece.text.begin(), ' ');
    }));
  }
  if (bool_or(description, "use_regex", true)) {
    steps.push_back(split_step({pattern_matcher(kGpt2Words)}));
  }
  steps.push_back(each_piece([](Piece& piece) {
    std::string symbols;
    for (const char byte : piece.text) symbols += byte_to_symbol(static_cast<std::uint8_t>(byte));
    piece.text = std::move(symbols);
  }));
}

// A space becomes `replacement`, one is put before a text, and words begin with it.
void read_metaspace(const Json& description, Steps& steps) {
  const std::string replacement = string_or(description, "replacement", "▁");
  if (replacement.empty() || utf8_character_bytes(replacement) != replacement.size()) {
    throw DataError("pre-tokenizer 'Metaspace': its replacement is not one character");
  }
  const bool add = bool_or(description, "add_prefix_space", true);
  const std::string scheme = string_or(description, "prepend_scheme", add ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw DataError("pre-tokenizer 'Metaspace': prepend_scheme '" + scheme + "' is not known");
  }
  const bool first_only = scheme == "first";
  const bool prepends = scheme != "never";
  steps.push_back(each_piece([=](Piece& piece) {
    std::string text;
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement;
      } else {
        text += c;
      }
    }
    const bool wanted = prepends && (first_only ? piece.start == PieceStart::kText
                                                : piece.start != PieceStart::kContinued);
    if (wanted && !text.empty() && !text.starts_with(replacement)) text.insert(0, replacement);
    piece.text = std::move(text);
  }));
  if (bool_or(description, "split", true)) {
    steps.push_back(split_step({text_matcher(replacement), SplitBehavior::kMergedWithNext}));
  }
}

SplitRule read_split(const Json& description) {
  const Json& pattern = required_member(description, "pattern");
  SplitRule rule;
  rule.matcher = find_member(pattern, "Regex") != nullptr
                     ? pattern_matcher(required_string(pattern, "Regex"))
                     : text_matcher(required_string(pattern, "String"));
  rule.behavior = split_behavior(required_string(description, "behavior"));
  rule.invert = bool_or(description, "invert", false);
  return rule;
}

void read(const Json& description, int depth, Steps& steps) {
  const std::string type = required_string(description, "type");
  const auto split = [&](const char* pattern, SplitBehavior behavior, bool invert = false) {
    steps.push_back(split_step({pattern_matcher(pattern), behavior, invert}));
  };
  if (type == "Sequence") {
    const Json& parts = required_member(description, "pretokenizers");
    if (!parts.is_array() || depth == kMaxDepth) {
      throw DataError("pre-tokenizer: a sequence is no list, or too deep");
    }
    for (const Json& part : parts) read(part, depth + 1, steps);
  } else if (type == "ByteLevel") {
    read_byte_level(description, steps);
  } else if (type == "Metaspace") {
    read_metaspace(description, steps);
  } else if (type == "Split") {
    steps.push_back(split_step(read_split(description)));
  } else if (type == "Digits") {
    const bool single = bool_or(description, "individual_digits", false);
    split(R"(\p{N})", single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  } else if (type == "Punctuation") {
    split(R"([\p{P}$+<=>^`|~])", split_behavior(string_or(description, "behavior", "Isolated")));
  } else if (type == "Whitespace") {
    // The joiners are characters of a word here.
    split(R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)", SplitBehavior::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    split(R"(\s)", SplitBehavior::kRemoved);
  } else if (type == "CharDelimiterSplit") {
    steps.push_back(split_step(
        {text_matcher(required_string(description, "delimiter")), SplitBehavior::kRemoved}));
  } else {
    throw DataError("pre-tokenizer '" + type +
                    "' is not supported; known are ByteLevel, Split, Digits, Metaspace, "
                    "Whitespace, WhitespaceSplit, Punctuation, CharDelimiterSplit, Sequence");
  }
}

}  // namespace

std::vector<Piece> PretokenizerChain::words(Piece piece) const {
  const std::size_t limit = most_bytes_from(piece.text.size());
  std::vector<Piece> pieces;
  if (!piece.text.empty()) pieces.push_back(std::move(piece));
  for (const Step& step : steps_) {
    pieces = step(std::move(pieces));
    std::size_t bytes = 0;
    for (const Piece& word : pieces) bytes += word.text.size();
    if (bytes > limit) {
      throw DataError("pre-tokenizer: makes more than " + std::to_string(limit) +
                      " bytes of a text");
    }
  }
  return pieces;
}

PretokenizerChain read_pretokenizer(const Json& description) {
  Steps steps;
  if (!description.is_null()) read(description, 0, steps);
  return PretokenizerChain(std::move(steps));
}

}  // namespace kvscope
