#include "harness/tasks/answer_sample.h"

#include <algorithm>

#include "harness/store/metric_info.h"
#include "metrics/quality/answer_text.h"

namespace kvscope {

std::optional<AnswerTokens> answer_tokens(const Sample& sample, QuestionVisibility question) {
  const std::span<const std::int32_t> prompt(sample.prompt_ids);
  std::size_t cut = prompt.size();
  if (question == QuestionVisibility::kHidden) {
    if (sample.question_begin < 1) return std::nullopt;
    cut = std::size_t(sample.question_begin);
  } else if (sample.prefix_ids.empty()) {
    --cut;  // the last token is held back
  }
  AnswerTokens tokens;
  tokens.prompt.assign(prompt.begin(), prompt.begin() + std::ptrdiff_t(cut));
  tokens.feed.assign(prompt.begin() + std::ptrdiff_t(cut), prompt.end());
  tokens.feed.insert(tokens.feed.end(), sample.prefix_ids.begin(), sample.prefix_ids.end());
  return tokens;
}

std::span<const std::int32_t> without_stop(std::span<const std::int32_t> ids,
                                           std::optional<std::int32_t> stop_token,
                                           std::span<const std::int32_t> stop_tokens) {
  const auto ends = [&](std::int32_t id) {
    return id == *stop_token || std::ranges::find(stop_tokens, id) != stop_tokens.end();
  };
  return !ids.empty() && stop_token && ends(ids.back()) ? ids.first(ids.size() - 1) : ids;
}

std::string answer_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                        std::optional<std::int32_t> stop_token,
                        std::span<const std::int32_t> stop_tokens) {
  return tokenizer.decode(without_stop(ids, stop_token, stop_tokens));
}

std::string_view judged_part(std::string_view text, AnswerCut cut) {
  switch (cut) {
    case AnswerCut::kNone:
      return text;
    case AnswerCut::kFirstLine:
      return first_line(text);
    case AnswerCut::kSentenceRest:
      return sentence_rest(text);
  }
  return text;
}

bool is_right(AnswerScorer scorer, std::string_view text, const Sample& sample) {
  SampleOutcome outcome;
  scorer(judged_part(text, sample.answer_cut), sample, outcome);
  for (const auto& [name, value] : outcome.metrics) {
    if (const MetricInfo* info = find_metric(name); info != nullptr && info->kind == "binary")
      return value > 0.5;
  }
  return false;
}

}  // namespace kvscope
