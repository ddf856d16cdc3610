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
    sample.gold_ids = chat.answer_ids(question.golds.front(), question.answer_prefix);
  }
  sample.golds = question.golds;
  sample.input_sha256 = input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids);
  std::tie(sample.evidence_begin, sample.evidence_end) = token_range(
      tokenizer, sample.prompt_ids, question.text, question.evidence_begin, question.evidence_end);
  // A token that holds the question's first byte and bytes before it belongs to the question.
  sample.question_begin = token_range(tokenizer, sample.prompt_ids, question.text,
                                      question.question_begin, question.text.size())
                              .first;
  return sample;
}

}  // namespace kvscope
