#include "runner/tokenizer/normalizer.h"

#include <memory>
#include <string_view>
#include <utility>

#include "runner/base/error.h"
#include "runner/tokenizer/characters.h"
#include "runner/tokenizer/json_fields.h"
#include "runner/tokenizer/regex.h"
#include "runner/tokenizer/unicode_form.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;
using Steps = std::vector<Normalizer::Step>;

constexpr int kMaxDepth = 16;  // of sequences in sequences

Normalizer::Step form_step(UnicodeForm form) {
  return [form](Piece& piece) { piece.text = to_unicode_form(piece.text, form); };
}

Normalizer::Step replace_matches_step(const std::string& pattern, std::string to) {
  return [regex = std::make_shared<const Regex>(pattern), to = std::move(to)](Piece& piece) {
    std::string out;
    std::size_t copied = 0;
    regex->each_match(piece.text, [&](std::size_t begin, std::size_t end) {
      out.append(piece.text, copied, begin - copied).append(to);
      copied = end;
    });
    piece.text = out.append(piece.text, copied);
  };
}

Normalizer::Step strip_step(bool left, bool right) {
  return [=](Piece& piece) {
    if (right) piece.text.resize(piece.text.size() - trailing_white_space(piece.text));
    const std::size_t skip = left ? leading_white_space(piece.text) : 0;
    piece.text.erase(0, skip);
    // What is left begins behind other characters.
    if (skip > 0 && piece.start == PieceStart::kText) piece.start = PieceStart::kInner;
  };
}

void read(const Json& description, int depth, Steps& steps) {
  const std::string type = required_string(description, "type");
  if (type == "Sequence") {
    const Json& parts = required_member(description, "normalizers");
    if (!parts.is_array() || depth == kMaxDepth) {
      throw DataError("normalizer: a sequence is no list, or too deep");
    }
    for (const Json& part : parts) read(part, depth + 1, steps);
  } else if (type == "NFC") {
    steps.push_back(form_step(UnicodeForm::kNfc));
  } else if (type == "NFD") {
    steps.push_back(form_step(UnicodeForm::kNfd));
  } else if (type == "NFKC") {
    steps.push_back(form_step(UnicodeForm::kNfkc));
  } else if (type == "NFKD") {
    steps.push_back(form_step(UnicodeForm::kNfkd));
  } else if (type == "Lowercase") {
    steps.push_back([](Piece& piece) { piece.text = to_lower_case(piece.text); });
  } else if (type == "Strip") {
    steps.push_back(strip_step(bool_or(description, "strip_left", true),
                               bool_or(description, "strip_right", true)));
  } else if (type == "Prepend") {
    steps.push_back(prepend_step(required_string(description, "prepend")));
  } else if (type == "Replace") {
    const Json& pattern = required_member(description, "pattern");
    const std::string content = required_string(description, "content");
    if (find_member(pattern, "Regex") != nullptr) {
      steps.push_back(replace_matches_step(required_string(pattern, "Regex"), content));
    } else {
      steps.push_back(replace_step(required_string(pattern, "String"), content));
    }
  } else {
    throw DataError("normalizer '" + type +
                    "' is not supported; known are NFC, NFD, NFKC, NFKD, Lowercase, Strip, "
                    "Prepend, Replace, Sequence");
  }
}

}  // namespace

void Normalizer::apply(Piece& piece) const {
  const std::size_t limit = most_bytes_from(piece.text.size());
  for (const Step& step : steps_) {
    step(piece);
    if (piece.text.size() > limit) {
      throw DataError("normalizer: makes more than " + std::to_string(limit) + " bytes of a text");
    }
  }
}

Normalizer::Step prepend_step(std::string text) {
  return [text = std::move(text)](Piece& piece) {
    if (!piece.text.empty() && piece.start != PieceStart::kContinued) piece.text.insert(0, text);
  };
}

Normalizer::Step replace_step(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](Piece& piece) {
    if (from.empty()) return;
    std::string out;
    std::size_t copied = 0;
    for (std::size_t at = 0; (at = piece.text.find(from, at)) != std::string::npos;) {
      out.append(piece.text, copied, at - copied).append(to);
      copied = at += from.size();
    }
    if (copied > 0) piece.text = out.append(piece.text, copied);
  };
}

Normalizer read_normalizer(const Json& description) {
  Steps steps;
  if (!description.is_null()) read(description, 0, steps);
  return Normalizer(std::move(steps));
}

}  // namespace kvscope
