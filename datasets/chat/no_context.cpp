#include "datasets/chat/no_context.h"

#include <algorithm>
#include <utility>

namespace kvscope {

Dataset without_context(const Dataset& dataset, const ChatTemplate& chat) {
  const std::vector<std::int32_t> header = chat.render_user({});
  Dataset out;
  out.name = dataset.name + "_no_context";
  out.version = "no_context of " + dataset.key();
  for (Sample sample : dataset.samples) {
    if (sample.question_begin < 0) continue;
    const auto question = sample.prompt_ids.begin() + sample.question_begin;
    const bool has_header = static_cast<std::size_t>(sample.question_begin) >= header.size() &&
                            std::equal(header.begin(), header.end(), sample.prompt_ids.begin());
    std::vector<std::int32_t> prompt;
    if (has_header) prompt = header;
    sample.question_begin = static_cast<int>(prompt.size());
    prompt.insert(prompt.end(), question, sample.prompt_ids.end());
    sample.prompt_ids = std::move(prompt);
    sample.evidence_begin = sample.evidence_end = -1;
    sample.evidence_spans.clear();
    sample.input_sha256 = input_hash(sample.prompt_ids, sample.prefix_ids, sample.gold_ids);
    out.samples.push_back(std::move(sample));
  }
  return out;
}

}  // namespace kvscope
