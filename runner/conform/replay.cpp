#include "runner/conform/replay.h"

#include <algorithm>
#include <numeric>

namespace kvscope::conform {
namespace {

// A unit's keys and values as the cache stores them.
class UnitReader final : public SlotReader {
 public:
  UnitReader(const SyntheticLayer& layer, int first_kv_head, int n_kv_heads,
             const Positions& positions, PositionMode mode)
      : layer_(layer), first_(first_kv_head), n_(n_kv_heads), positions_(positions), mode_(mode) {}
  int n_kv_heads() const override { return n_; }
  int head_dim() const override { return layer_.head_dim; }
  void read_key(int kv_head, int slot, std::span<float> out) const override {
    read(layer_.keys, kv_head, slot, out);
    if (mode_ == PositionMode::kCacheRelative) return;
    int angle = positions_[slot];
    if (mode_ == PositionMode::kRerotate) {
      angle = static_cast<int>(std::count_if(positions_.begin(), positions_.end(),
                                             [&](std::int32_t p) { return p < positions_[slot]; }));
    }
    rotate_pairs(layer_.inverse_frequency, angle, out);
  }
  void read_value(int kv_head, int slot, std::span<float> out) const override {
    read(layer_.values, kv_head, slot, out);
  }

 private:
  void read(const std::vector<float>& all, int kv_head, int slot, std::span<float> out) const {
    const std::size_t row =
        static_cast<std::size_t>(first_ + kv_head) * layer_.table.n_tokens + positions_[slot];
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(row * layer_.head_dim), out.size(),
                out.begin());
  }

  const SyntheticLayer& layer_;
  int first_;
  int n_;
  const Positions& positions_;
  PositionMode mode_;
};

// Row `token` of heads first … first + n - 1. all: [heads][n_tokens][head_dim]
std::vector<float> row_of(const std::vector<float>& all, int first, int n, int n_tokens, int dim,
                          int token) {
  std::vector<float> out;
  for (int h = first; h < first + n && !all.empty(); ++h) {
    const auto at = all.begin() + (std::ptrdiff_t{h} * n_tokens + token) * dim;
    out.insert(out.end(), at, at + dim);
  }
  return out;
}

Positions ascending(Positions positions) {
  std::sort(positions.begin(), positions.end());
  return positions;
}

bool strictly_ascending(const Positions& list) {
  return std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) == list.end();
}

}  // namespace

Replay::Replay(std::shared_ptr<const Policy> policy, std::span<const SyntheticLayer> layers,
               ReplayOptions options)
    : policy_(std::move(policy)),
      layers_(layers),
      options_(std::move(options)),
      cut_(layers.size()),
      units_(make_units(policy_->scan_rule())) {
  for (Unit& unit : units_) unit.state = make_state(unit, {});
}

Replay Replay::fork() const {
  Replay copy(policy_, layers_, options_);
  copy.cut_ = cut_;
  copy.fault_ = fault_;
  copy.units_.clear();
  for (const Unit& unit : units_) {
    copy.units_.push_back({unit.place, unit.first_kv_head, unit.n_kv_heads, unit.visible,
                           unit.slots, unit.state ? unit.state->clone() : nullptr});
  }
  return copy;
}

std::vector<Replay::Unit> Replay::make_units(const std::optional<ScanRule>& rule) const {
  const bool one_set = rule && rule->scope == ScanRule::Scope::kLayer;
  const int n_units = one_set ? 1 : n_kv_heads();
  std::vector<Unit> units;
  for (int layer = 0; layer < n_layers(); ++layer) {
    for (int u = 0; u < n_units; ++u) {
      Unit unit;
      unit.place = {layer, u, n_layers()};
      unit.first_kv_head = u;
      unit.n_kv_heads = n_kv_heads() / n_units;
      units.push_back(std::move(unit));
    }
  }
  return units;
}

std::unique_ptr<PolicyState> Replay::make_state(const Unit& unit, KeptHead start) const {
  if (start.budget_tokens == 0) start.budget_tokens = policy_->unit_budget(unit.place);
  if (options_.make_state && policy_->scan_rule()) return options_.make_state(unit.place, start);
  return policy_->make_state(unit.place, start);
}

void Replay::prompt(int prompt_tokens) {
  if (policy_->prefill() == PrefillMode::kStreaming) {
    stream_prompt(prompt_tokens);
  } else {
    cut_prompt(prompt_tokens);
  }
}

void Replay::cut_prompt(int prompt_tokens) {
  const PromptNeed need = policy_->prompt_need();
  const auto cascade = policy_->make_cascade();
  for (int layer = 0; layer < n_layers() && fault_.empty(); ++layer) {
    const DensePrompt dense(layers_[layer], need, prompt_tokens);
    const PromptLayer view = dense.view(layer, n_layers());
    keep(layer, cascade ? cascade->cut(view) : policy_->select_prompt(view), prompt_tokens);
    if (!cascade) continue;
    for (PromptCascade::Recut& recut : cascade->take_recuts()) {
      if (recut.layer < 0 || recut.layer > layer ||
          static_cast<int>(recut.heads.size()) != n_kv_heads()) {
        fault_ = "the cascade cuts a layer again that was not cut yet";
        return;
      }
      for (int h = 0; h < n_kv_heads() && fault_.empty(); ++h) {
        const Positions& before = cut_[recut.layer][h].positions;
        const Positions& after = recut.heads[h].positions;
        if (!std::includes(before.begin(), before.end(), after.begin(), after.end()))
          fault_ = "a layer that was cut again holds tokens which had left it";
      }
      keep(recut.layer, std::move(recut.heads), prompt_tokens);
    }
  }
}

void Replay::keep(int layer, std::vector<KeptHead> heads, int prompt_tokens) {
  if (!fault_.empty()) return;
  if (static_cast<int>(heads.size()) != n_kv_heads()) {
    fault_ = "the prompt's cut has not one entry per KV head";
    return;
  }
  for (const KeptHead& head : heads) {
    const Positions& kept = head.positions;
    if (!strictly_ascending(kept)) fault_ = "the prompt's cut is not ascending or repeats a token";
    if (kept.empty() || kept.front() < 0 || kept.back() >= prompt_tokens)
      fault_ = "the prompt's cut is empty or holds a token that the prompt has not";
    if (!head.statistic.empty() && head.statistic.size() != kept.size())
      fault_ = "the prompt's cut has not one statistic per token";
  }
  if (!fault_.empty()) return;
  cut_[layer] = std::move(heads);
  for (Unit& unit : units_) {
    if (unit.place.layer != layer) continue;
    const KeptHead& head = cut_[layer][unit.first_kv_head];
    unit.visible.resize(prompt_tokens);
    std::iota(unit.visible.begin(), unit.visible.end(), 0);
    unit.slots = head.positions;
    unit.state = make_state(unit, head);
  }
}

void Replay::stream_prompt(int prompt_tokens) {
  const auto rule = policy_->streaming_rule();
  const auto after = policy_->scan_rule();
  units_ = make_units(rule);
  for (Unit& unit : units_) {
    if (rule && options_.make_state && rule == after) {
      unit.state = make_state(unit, {});
    } else if (rule) {
      unit.state = policy_->make_streaming_state(unit.place);
    }
  }
  for (int t = 0; t < prompt_tokens; t += policy_->chunk())
    chunk(t, std::min(t + policy_->chunk(), prompt_tokens) - 1);
  if (rule == after) return;
  // Another rule takes over, from zero scores.
  std::vector<Unit> units = make_units(after);
  for (Unit& next : units) {
    const Unit& now = unit(next.first_kv_head, next.place.layer);
    next.visible = now.visible;
    next.slots = now.slots;
    KeptHead head;
    head.positions = now.slots;
    next.state = make_state(next, head);
  }
  units_ = std::move(units);
}

void Replay::chunk(int first, int last) {
  for (Unit& unit : units_) {
    if (fault_.empty()) run_chunk(unit, first, last);
  }
}

void Replay::rows(int first, int last) {
  for (int t = first; t <= last; t += policy_->every())
    chunk(t, std::min(t + policy_->every() - 1, last));
}

void Replay::observe(int token) {
  for (Unit& unit : units_) {
    unit.visible = unit.slots;
    observe_row(unit, token);
  }
}

void Replay::observe_row(Unit& unit, int token) const {
  const SyntheticLayer& layer = layers_[unit.place.layer];
  const int n_tokens = layer.table.n_tokens;
  const int group = layer.table.n_heads / layer.n_kv_heads;
  const int n_heads = group * unit.n_kv_heads;
  const int head = unit.first_kv_head * group;
  const int d = layer.head_dim;
  unit.visible.push_back(token);
  if (!unit.state) return;
  const UnitReader contents(layer, unit.first_kv_head, unit.n_kv_heads, unit.visible,
                            policy_->positions());
  const auto a = probabilities(layer.table, head, n_heads, token, unit.visible);
  const auto q = row_of(layer.queries, head, n_heads, n_tokens, d, token);
  const auto k = row_of(layer.keys, unit.first_kv_head, unit.n_kv_heads, n_tokens, d, token);
  const auto v = row_of(layer.values, unit.first_kv_head, unit.n_kv_heads, n_tokens, d, token);
  unit.state->observe(
      {unit.visible, a, n_heads, d > 0 ? &contents : nullptr, q, k, v, layer.inverse_frequency});
}

void Replay::run_chunk(Unit& unit, int first, int last) {
  unit.visible = unit.slots;
  for (int token = first; token <= last; ++token) observe_row(unit, token);
  unit.slots = unit.visible;
  if (!unit.state) return;
  const SyntheticLayer& layer = layers_[unit.place.layer];
  const UnitReader contents(layer, unit.first_kv_head, unit.n_kv_heads, unit.visible,
                            policy_->positions());
  const SlotReader* reader = layer.head_dim > 0 ? &contents : nullptr;
  const Positions keep = unit.state->select({unit.visible, reader});
  if (options_.select_twice && unit.state->select({unit.visible, reader}) != keep)
    fault_ = "select() is not pure: asked twice, it gave two answers";
  if (valid(unit, keep)) compact(unit, keep);
}

bool Replay::valid(const Unit& unit, const Positions& keep) {
  if (keep.empty()) fault_ = "select() keeps nothing";
  if (!strictly_ascending(keep)) fault_ = "select() is not ascending or repeats a slot";
  if (!keep.empty() &&
      (keep.front() < 0 || keep.back() >= static_cast<std::int32_t>(unit.visible.size())))
    fault_ = "select() returned a slot that does not exist";
  return fault_.empty();
}

void Replay::compact(Unit& unit, const Positions& keep) const {
  Positions old_slot_of = keep;
  if (options_.order == SlotOrder::kReversed) {
    std::reverse(old_slot_of.begin(), old_slot_of.end());
  } else if (options_.order == SlotOrder::kLastIntoHole) {
    old_slot_of.resize(unit.visible.size());
    std::iota(old_slot_of.begin(), old_slot_of.end(), 0);
    // Highest slot first, so that what moves into a hole never leaves itself.
    for (auto slot = static_cast<std::int32_t>(unit.visible.size()) - 1; slot >= 0; --slot) {
      if (std::binary_search(keep.begin(), keep.end(), slot)) continue;
      old_slot_of[slot] = old_slot_of.back();
      old_slot_of.pop_back();
    }
  }
  unit.slots.clear();
  for (const auto slot : old_slot_of) unit.slots.push_back(unit.visible[slot]);
  unit.state->compact(old_slot_of);
}

const Replay::Unit& Replay::unit(int kv_head, int layer) const {
  const std::size_t by_layer = units_.size() / layers_.size();
  return units_[layer * by_layer + (by_layer == 1 ? 0 : kv_head)];
}

Positions Replay::visible(int kv_head, int layer) const {
  return ascending(unit(kv_head, layer).visible);
}

Positions Replay::kept(int kv_head, int layer) const {
  return ascending(unit(kv_head, layer).slots);
}

const Positions& Replay::slots(int kv_head, int layer) const {
  return unit(kv_head, layer).visible;
}

const PolicyState* Replay::state(int kv_head, int layer) const {
  return unit(kv_head, layer).state.get();
}

int Replay::budget(int kv_head, int layer) const {
  if (!cut_[layer].empty() && cut_[layer][kv_head].budget_tokens > 0)
    return cut_[layer][kv_head].budget_tokens;
  return policy_->unit_budget(unit(kv_head, layer).place);
}

std::uint64_t Replay::nan_scores() const {
  std::uint64_t n = 0;
  for (const Unit& unit : units_) n += unit.state ? unit.state->nan_scores() : 0;
  for (const auto& heads : cut_) {
    for (const KeptHead& head : heads) n += static_cast<std::uint64_t>(head.nan_scores);
  }
  return n;
}

}  // namespace kvscope::conform
