#include "datasets/chat/chat_sample.h"

#include <algorithm>
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
  // Bytes of the question's text in what is rendered of it.
  const std::string_view text = chat.rendered(question.text);
  const auto skipped = static_cast<std::size_t>(text.data() - question.text.data());
  const auto at = [&](std::size_t byte) {
    return byte == std::string::npos ? byte
                                     : std::min(std::max(byte, skipped) - skipped, text.size());
  };
  const TokenRanges ranges(tokenizer, sample.prompt_ids, text);
  std::tie(sample.evidence_begin, sample.evidence_end) =
      ranges.find(at(question.evidence_begin), at(question.evidence_end));
  if (sample.evidence_begin >= 0) {
    sample.evidence_spans.emplace_back(sample.evidence_begin, sample.evidence_end);
  }
  for (const auto& [begin, end] : question.more_evidence) {
    if (const auto span = ranges.find(at(begin), at(end)); span.first >= 0) {
      sample.evidence_spans.push_back(span);
    }
  }
  // A token that holds the question's first byte and bytes before it belongs to the question.
  sample.question_begin = ranges.find(at(question.question_begin), text.size()).first;
  return sample;
}

}  // namespace kvscope
