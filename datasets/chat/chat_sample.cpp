#include "datasets/chat/chat_sample.h"

#include <tuple>

#include "datasets/base/token_range.h"

namespace kvscope {

Sample make_chat_sample(const ChatQuestion& question, const ChatTemplate& chat,
                        const Tokenizer& tokenizer) {
  Sample sample;
  sample.prompt_ids = chat.render_user(question.text);
  sample.prefix_ids = chat.assistant_header(question.answer_prefix);
  if (!question.golds.empty()) {
    const std::string& answer =
        question.gold_answer.empty() ? question.golds.front() : question.gold_answer;
    sample.gold_ids = chat.answer_ids(answer, question.answer_prefix);
  }
  sample.golds = question.golds;
  sample.input_sha256 = input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids);
  const TokenRanges ranges(tokenizer, sample.prompt_ids, question.text);
  std::tie(sample.evidence_begin, sample.evidence_end) =
      ranges.find(question.evidence_begin, question.evidence_end);
  if (sample.evidence_begin >= 0) {
    sample.evidence_spans.emplace_back(sample.evidence_begin, sample.evidence_end);
  }
  for (const auto& [begin, end] : question.more_evidence) {
    if (const auto span = ranges.find(begin, end); span.first >= 0) {
      sample.evidence_spans.push_back(span);
    }
  }
  // A token that holds the question's first byte and bytes before it belongs to the question.
  sample.question_begin = ranges.find(question.question_begin, question.text.size()).first;
  return sample;
}

}  // namespace kvscope
