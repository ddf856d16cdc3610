#include "metrics/probes/event_log.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace kvscope {

bool is_heavier(const ReboundEvent& a, const ReboundEvent& b) {
  if (a.mass != b.mass) return a.mass > b.mass;
  return std::tie(a.layer, a.kv_head, a.position, a.rebound_at) <
         std::tie(b.layer, b.kv_head, b.position, b.rebound_at);
}

void HeadEvents::prompt_cut(int prompt_tokens, std::span<const float> ghost_recent_mean,
                            std::span<const float> resident_recent_mean) {
  first_step_ = prompt_tokens;
  last_row_ = prompt_tokens - 1;
  history_.start_with_means(resident_recent_mean);
  ghosts_.clear();
  for (const float mean : ghost_recent_mean) ghosts_.push_back({double(mean), last_row_, true});
}

void HeadEvents::attention_row(const AttentionRow& row) {
  last_row_ = row.position;
  if (!row.ghost_logits.empty() && !first_step_) first_step_ = row.position;
  if (!weights_.add(row)) return;
  if (weights_.is_finite() && !row.ghost_logits.empty()) detect(row);
  history_.add_row(weights_.visible());
}

void HeadEvents::detect(const AttentionRow& row) {
  const std::span<const float> masses = weights_.ghosts();
  ghosts_.resize(masses.size());  // already so where every eviction was reported
  const double n_seen = double(row.visible_logits.size() + masses.size());
  std::optional<double> smallest;
  for (std::size_t i = 0; i < masses.size(); ++i) {
    Ghost& ghost = ghosts_[i];
    const double threshold = rebound_threshold(config_.rebound, n_seen, ghost.recent_mean);
    if (!rebound_step(config_.rebound, threshold, double(masses[i]), ghost.is_armed)) continue;
    if (row.position < config_.first_counted_position) continue;
    ++n_events_;
    if (events_.size() == most_ && (most_ == 0 || masses[i] < events_.front().mass)) continue;
    if (!smallest) smallest = smallest_evictable_weight(row);
    keep({row.layer, row.kv_head, row.ghost_positions[i], ghost.evicted_at, row.position,
          row.position - *first_step_, masses[i], rank_of(masses[i]),
          is_wrongful_eviction(double(masses[i]), *smallest)});
  }
}

double HeadEvents::smallest_evictable_weight(const AttentionRow& row) const {
  double smallest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < row.visible_positions.size(); ++i) {
    const std::int32_t position = row.visible_positions[i];
    if (position < config_.protected_sinks) continue;
    if (position > row.position - config_.protected_recent) continue;
    smallest = std::min(smallest, double(weights_.visible()[i]));
  }
  return smallest;
}

int HeadEvents::rank_of(float mass) const {
  const auto is_above = [&](float other) { return other > mass; };
  return 1 + int(std::ranges::count_if(weights_.visible(), is_above) +
                 std::ranges::count_if(weights_.ghosts(), is_above));
}

void HeadEvents::keep(const ReboundEvent& event) {
  if (events_.size() == most_) {
    if (!is_heavier(event, events_.front())) return;
    std::ranges::pop_heap(events_, is_heavier);
    events_.pop_back();
  }
  events_.push_back(event);
  std::ranges::push_heap(events_, is_heavier);
}

void HeadEvents::evicted(int slot, int last_slot) {
  ghosts_.push_back({history_.mean(slot), last_row_, true});
  history_.remove(slot, last_slot);
}

EventLog::EventLog(const AttentionProbeShape& shape, const AttentionProbeConfig& config,
                   std::size_t most)
    : n_kv_heads_(shape.n_kv_heads),
      most_(most),
      heads_(std::size_t(shape.n_layers) * std::size_t(shape.n_kv_heads),
             HeadEvents(config, shape.group_size, most)) {}

void EventLog::prompt_cut(int layer, int kv_head, int prompt_tokens,
                          std::span<const std::int32_t> /*ghost_positions*/,
                          std::span<const float> ghost_recent_mean,
                          std::span<const std::int32_t> /*resident_positions*/,
                          std::span<const float> resident_recent_mean) {
  head(layer, kv_head).prompt_cut(prompt_tokens, ghost_recent_mean, resident_recent_mean);
}

void EventLog::attention_row(const AttentionRow& row) {
  head(row.layer, row.kv_head).attention_row(row);
}

void EventLog::evicted(int layer, int kv_head, int /*position*/, int slot, int last_slot) {
  head(layer, kv_head).evicted(slot, last_slot);
}

std::vector<ReboundEvent> EventLog::heaviest() const {
  std::vector<ReboundEvent> all;
  for (const HeadEvents& head : heads_)
    all.insert(all.end(), head.events().begin(), head.events().end());
  std::ranges::sort(all, is_heavier);
  if (all.size() > most_) all.resize(most_);
  return all;
}

std::int64_t EventLog::n_events() const {
  std::int64_t n = 0;
  for (const HeadEvents& head : heads_) n += head.n_events();
  return n;
}

}  // namespace kvscope
