// The host's side of a scan: row after row of one selection unit (policies.md 1.2: append, attend,
// observe, select, evict), with the policy's rule run in place, as data or as a host callback.
// Attention is the backend's: it opens a row, attends, and closes it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runner/backend/backend.h"

namespace kvscope::cpu {

class UnitScan {
 public:
  UnitScan(const AttentionShape& shape, const RopeTable& rope, const ScanJob& job);

  const ScanJob& job() const { return job_; }

  void open_row(int r);  // appends its token
  // Observes, records, evicts. Attention has written each head's out(), probabilities_of() where
  // observes(), and told the probe.
  void close_row(int r);

  const float* row(int r) const { return job_.qkv + r * job_.qkv_stride; }
  int position(int r) const { return job_.first_position + r; }
  bool relative() const { return job_.positions != PositionMode::kAbsolute; }
  bool observes() const { return observes_; }
  int n_slots() const { return n_slots_; }  // visible in this row
  int group() const { return group_; }
  int head_dim() const { return d_; }
  float* out(int h, int g, int r) const {  // [head_dim]
    return job_.out + r * job_.out_stride + std::size_t((job_.first_kv_head + h) * group_ + g) * d_;
  }
  // What the query turns to in this row.
  int query_angle(int r) const { return relative() ? n_slots_ - 1 : position(r); }
  const float* query(int h, int g, int r) const {  // [head_dim], raw
    return row(r) + std::size_t((job_.first_kv_head + h) * group_ + g) * d_;
  }
  float* probabilities_of(int h, int g) {  // [n_slots]
    return probabilities_.data() + std::size_t(h * group_ + g) * n_slots_;
  }
  // Selection without eviction (job().read), for KV head h: notes the row's own key; whether rows
  // then read everything; else the slots that query head g reads. q: [group][head_dim] turned and
  // scaled.
  void note_key(int h);
  bool reads_all(int h) const;
  std::vector<KeyRange> chosen_slots(int h, int g, std::span<const float> q) const;
  // logits: [group][n_slots] and [group][n_ghosts].
  void show_probe(int h, int r, const float* logits, const float* ghost_logits);
  const HeadCache& ghosts_of(int h) const;

  const RopeTable& rope() const { return rope_; }
  const AttentionShape& shape() const { return shape_; }
  // The first position that this row sees; whether there may be others before it.
  int first_seen(int r) const { return shape_.first_seen(position(r)); }
  bool leaves_window(int r) const { return first_seen(r) > 0; }

 private:
  void append(int h, int r);
  // Policies take q·k/√d for a logit: queries times what another scale differs by.
  std::span<const float> in_usual_scale(std::span<const float> queries);
  void observe(int r);
  void evict(int r);
  void choose_host_victims();
  void compact_host();
  void close_ranks(HeadCache& head);
  KvBytes beyond_pages(int h) const;
  void record_visible(int r);
  void record_resident(int r);

  const AttentionShape& shape_;
  const RopeTable& rope_;
  const ScanJob job_;
  const int d_;
  const int group_;
  HeadCache::StateInUse use_;
  bool observes_ = false;
  int n_slots_ = 0;
  int row_ = 0;                        // that is open
  SharedVector<float> probabilities_;  // [n_kv_heads * group][n_slots]
  std::vector<int> victims_;
  std::vector<float> scaled_queries_;
  std::vector<std::int32_t> old_slot_of_;
};

}  // namespace kvscope::cpu
