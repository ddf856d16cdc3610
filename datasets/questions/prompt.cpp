#include "datasets/questions/prompt.h"

#include <algorithm>
#include <array>

#include "datasets/questions/options.h"
#include "datasets/text/text_file.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::size_t first_not_space(std::string_view text, std::size_t from) {
  const std::size_t at = text.find_first_not_of(kSpace, from);
  return at == std::string_view::npos ? std::string::npos : at;
}

// Half a character at a cut is no text.
std::string_view whole_start(std::string_view text) {
  const auto bad = first_invalid_utf8(text);
  return bad && text.size() - *bad < 4 ? text.substr(0, *bad) : text;
}
std::string_view whole_end(std::string_view text) {
  std::size_t begin = 0;
  while (begin < std::min<std::size_t>(3, text.size()) &&
         (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) {
    ++begin;
  }
  return text.substr(begin);
}

// `head` and `tail` of the old text stay, with `mark` between.
void keep_ends(Prompt& prompt, std::string_view head, std::string_view mark,
               std::string_view tail) {
  const std::string old = std::move(prompt.text);
  prompt.text = std::string(head).append(mark).append(tail);
  prompt.cut = true;
  const std::size_t tail_begin = old.size() - tail.size();  // in the old text
  const auto moved = [&](std::size_t at) { return at - tail_begin + head.size() + mark.size(); };
  std::vector<TextSpan> kept;
  for (const TextSpan& span : prompt.evidence) {
    if (span.end <= head.size()) {
      kept.push_back(span);
    } else if (span.begin >= tail_begin) {
      kept.push_back({moved(span.begin), moved(span.end)});
    } else {
      prompt.evidence_cut = true;
    }
  }
  prompt.evidence = std::move(kept);
  if (prompt.question_begin != std::string::npos && prompt.question_begin >= head.size()) {
    prompt.question_begin = moved(std::max(prompt.question_begin, tail_begin));
  }
  if (prompt.document_end >= head.size()) {
    prompt.document_end = moved(std::max(prompt.document_end, tail_begin));
  }
}

}  // namespace

void check_template(std::string_view text, const std::string& where) {
  if (text.find("{context}") == std::string_view::npos) {
    throw UsageError(where +
                     ": a prompt's text needs {context} where the document goes (and {input} "
                     "or {question}, {options})");
  }
}

Prompt compose_prompt(std::string_view text, const Question& question, std::string_view document) {
  std::string input = question.input;
  if (!question.options.empty() && text.find("{options}") == std::string_view::npos) {
    input += "\n" + lettered(question.options);
  }
  const std::array<std::pair<std::string_view, std::string>, 4> values = {{
      {"{context}", std::string(document)},
      {"{input}", input},
      {"{question}", input},
      {"{options}", lettered(question.options)},
  }};
  Prompt prompt;
  bool asked_before = false;
  bool has_document = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto value = std::ranges::find_if(
        values, [&](const auto& entry) { return text.substr(i).starts_with(entry.first); });
    if (value == values.end()) {
      prompt.text.push_back(text[i++]);
      continue;
    }
    const bool is_document = value == values.begin();
    if (is_document && !has_document) {
      for (const TextSpan& span : question.evidence) {
        prompt.evidence.push_back({prompt.text.size() + span.begin, prompt.text.size() + span.end});
      }
    }
    asked_before |= !is_document && !has_document;
    prompt.text += value->second;
    if (is_document) {
      has_document = true;
      prompt.document_end = prompt.text.size();
    }
    i += value->first.size();
  }
  if (!asked_before) prompt.question_begin = first_not_space(prompt.text, prompt.document_end);
  return prompt;
}

void truncate_prompt(Prompt& prompt, std::size_t most, Truncation truncation, std::string_view mark,
                     const Tokenizer& tokenizer) {
  if (truncation == Truncation::kNone || most == 0) return;
  const auto ids = tokenizer.encode(prompt.text, SpecialTokens::kAsText);
  if (ids.size() <= most) return;
  const std::span<const std::int32_t> all(ids);
  if (truncation == Truncation::kMiddle) {
    const std::string head = tokenizer.decode(all.first(most / 2));
    const std::string tail = tokenizer.decode(all.last(most / 2));
    keep_ends(prompt, whole_start(head), {}, whole_end(tail));
    return;
  }
  const std::string question = prompt.text.substr(prompt.document_end);
  const std::size_t n_question =
      tokenizer.encode(std::string(mark) + question, SpecialTokens::kAsText).size();
  const auto document = tokenizer.encode(
      std::string_view(prompt.text).substr(0, prompt.document_end), SpecialTokens::kAsText);
  // A question longer than the limit leaves nothing to cut.
  const std::size_t kept = std::min(most > n_question ? most - n_question : 0, document.size());
  const std::string head = tokenizer.decode(std::span<const std::int32_t>(document).first(kept));
  keep_ends(prompt, whole_start(head), mark, question);
}

}  // namespace kvscope
