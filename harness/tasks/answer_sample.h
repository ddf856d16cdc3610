// One answer sample as it is run and judged, for what looks at single samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/sample.h"
#include "harness/plan/arms.h"
#include "harness/tasks/task.h"
#include "runner/tokenizer/tokenizer.h"

namespace kvscope {

// The sample's tokens, parted where a policy selects.
struct AnswerTokens {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> feed;  // fed after the selection; never empty
};
// nullopt: hidden from the policy, and it is not known which of the tokens are the question.
std::optional<AnswerTokens> answer_tokens(const Sample& sample, QuestionVisibility question);

// `ids` without the stop token, or one of the model's own, at their end.
std::span<const std::int32_t> without_stop(std::span<const std::int32_t> ids,
                                           std::optional<std::int32_t> stop_token,
                                           std::span<const std::int32_t> stop_tokens);

// The text of what without_stop() leaves.
std::string answer_text(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                        std::optional<std::int32_t> stop_token,
                        std::span<const std::int32_t> stop_tokens);

std::string_view judged_part(std::string_view text, AnswerCut cut);

// By the first metric of the scorer that is right or wrong.
bool is_right(AnswerScorer scorer, std::string_view text, const Sample& sample);

}  // namespace kvscope
