#include "datasets/needle/pieces.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace kvscope {
namespace {

// The gap, 0 to pieces, whose share of the tokens before it is nearest to `depth`.
// passed: [pieces + 1] tokens before each gap.
std::size_t gap_at(const std::vector<std::size_t>& passed, double depth) {
  const double wanted = depth * static_cast<double>(passed.back());
  const auto distance = [&](std::size_t gap) {
    return std::abs(static_cast<double>(passed[gap]) - wanted);
  };
  std::size_t best = 0;
  for (std::size_t gap = 1; gap < passed.size() && distance(gap) <= distance(best); ++gap) {
    if (distance(gap) < distance(best)) best = gap;
  }
  return best;
}

bool is_space(char c) { return c == ' ' || c == '\n'; }

struct Writer {
  ChatQuestion question;

  void evidence(std::size_t begin, std::size_t end) {
    if (question.evidence_end == 0) {
      question.evidence_begin = begin;
      question.evidence_end = end;
    } else {
      question.more_evidence.emplace_back(begin, end);
    }
  }
};

ChatQuestion compose(const PiecesText& text, const Filler& filler, std::size_t pieces,
                     std::string_view tail) {
  std::vector<std::size_t> passed = {0};
  for (std::size_t i = 0; i < pieces; ++i) passed.push_back(passed.back() + filler.piece_tokens(i));
  std::vector<std::pair<std::size_t, std::size_t>> places;  // gap, index
  for (std::size_t k = 0; k < text.inserts.size(); ++k) {
    places.emplace_back(gap_at(passed, text.inserts[k].depth), k);
  }
  std::ranges::sort(places);
  const bool is_list = !text.list_begin.empty();
  const bool opens = is_list || (!places.empty() && places.back().first == pieces);

  Writer out;
  std::string& body = out.question.text;
  body = text.opening;
  if (opens && !tail.empty()) body.append(tail).append(is_list ? "\n" : " ");
  body += text.list_begin;
  auto next = places.begin();
  for (std::size_t gap = 0; gap <= pieces; ++gap) {
    for (; next != places.end() && next->first == gap; ++next) {
      const Insert& insert = text.inserts[next->second];
      if (insert.is_evidence) out.evidence(body.size(), body.size() + insert.text.size());
      body.append(insert.text).append(is_list ? ", " : " ");
    }
    if (gap < pieces) body += filler.piece(gap);
  }
  if (!opens) body += tail;
  while (is_space(body.back()) || (is_list && body.back() == ',')) body.pop_back();
  body += text.list_end + text.separator;
  out.question.question_begin = body.size();
  body += text.closing;
  out.question.answer_prefix = text.answer_prefix;
  out.question.golds = text.golds;
  out.question.gold_answer = text.gold_answer;
  return std::move(out.question);
}

}  // namespace

Filler sentences_from(const Haystack& haystack, std::size_t first) {
  return {[&haystack, first](std::size_t i) { return haystack.sentence(first + i); },
          [&haystack, first](std::size_t i) { return haystack.tokens(first + i); }};
}

std::string haystack_words(const Haystack& haystack, std::size_t first) {
  constexpr std::size_t kTokens = 160;  // a pair of two UUIDs has 71 of SmolLM2's
  std::string words;
  for (std::size_t sum = 0; sum < kTokens; sum += haystack.tokens(first++)) {
    words.append(haystack.sentence(first)).append(" ");
  }
  return words;
}

GrowingPrompt growing(PiecesText text, Filler filler,
                      std::function<std::string(std::size_t pieces)> tail_words) {
  struct Parts {
    PiecesText text;
    Filler filler;
  };
  const auto parts = std::make_shared<const Parts>(Parts{std::move(text), std::move(filler)});
  return {[parts](std::size_t pieces, std::string_view tail) {
            return compose(parts->text, parts->filler, pieces, tail);
          },
          parts->filler.piece_tokens, std::move(tail_words)};
}

}  // namespace kvscope
