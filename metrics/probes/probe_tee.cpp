#include "metrics/probes/probe_tee.h"

#include <algorithm>

namespace kvscope {

RowView ProbeTee::layer_view(int layer) const {
  return std::max(first_.layer_view(layer), second_.layer_view(layer));
}

RowView ProbeTee::row_view(int layer, int kv_head, int position) const {
  return std::max(first_.row_view(layer, kv_head, position),
                  second_.row_view(layer, kv_head, position));
}

void ProbeTee::prompt_cut(int layer, int kv_head, int prompt_tokens,
                          std::span<const std::int32_t> ghost_positions,
                          std::span<const float> ghost_recent_mean,
                          std::span<const std::int32_t> resident_positions,
                          std::span<const float> resident_recent_mean) {
  for (ProbeSink* sink : {&first_, &second_}) {
    if (sink->layer_view(layer) == RowView::kNothing) continue;
    sink->prompt_cut(layer, kv_head, prompt_tokens, ghost_positions, ghost_recent_mean,
                     resident_positions, resident_recent_mean);
  }
}

void ProbeTee::attention_row(const AttentionRow& row) {
  for (ProbeSink* sink : {&first_, &second_}) {
    const RowView view = sink->row_view(row.layer, row.kv_head, row.position);
    if (view == RowView::kNothing) continue;
    AttentionRow shown = row;
    if (view < RowView::kOutputs) shown.visible_output = shown.ghost_output = {};
    if (view < RowView::kGhosts) {
      shown.ghost_logits = {};
      shown.ghost_positions = {};
      shown.ghost_logit_bound = 0;
      shown.n_forgotten = 0;
    }
    sink->attention_row(shown);
  }
}

void ProbeTee::evicted(int layer, int kv_head, int position, int slot, int last_slot) {
  for (ProbeSink* sink : {&first_, &second_}) {
    if (sink->layer_view(layer) == RowView::kNothing) continue;
    sink->evicted(layer, kv_head, position, slot, last_slot);
  }
}

}  // namespace kvscope
