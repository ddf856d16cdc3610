#include "runner/policies/score_state.h"

#include <algorithm>
#include <cmath>

namespace kvscope {

ScoredState::ScoredState(std::unique_ptr<ScoreState> score, const Selection& selection)
    : score_(std::move(score)), selection_(selection) {}

ScoredState::ScoredState(const ScoredState& other)
    : PolicyState(other),
      score_(other.score_->clone()),
      selection_(other.selection_),
      nan_scores_(other.nan_scores_),
      pages_(other.pages_),
      pages_formed_(other.pages_formed_) {}

std::unique_ptr<PolicyState> ScoredState::clone() const {
  return std::make_unique<ScoredState>(*this);
}

void ScoredState::observe(const VisibleRow& row) {
  score_->observe(row);
  if (!row.probabilities.empty()) {
    for (const float a : row.probabilities) nan_scores_ += std::isnan(a) ? 1 : 0;
  }
  if (!selection_.page) return;
  while (pages_.n_slots() < static_cast<int>(row.positions.size()))
    pages_.append(selection_.page->page_tokens);
}

std::vector<std::int32_t> ScoredState::select(const Slots& slots) const {
  const auto n = static_cast<int>(slots.positions.size());
  if (selection_.page)
    return pages_.select(*selection_.page, selection_.protection, score_->scores(slots),
                         slots.positions, selection_.budget_tokens);
  int budget = selection_.budget_tokens;
  if (n <= budget) {
    std::vector<std::int32_t> all(slots.positions.size());
    for (int i = 0; i < n; ++i) all[i] = i;
    return all;
  }
  budget = std::min(budget, std::max(1, n - selection_.drop_tokens));
  return keep_protected_and_best<float>(selection_.protection, slots.positions,
                                        score_->scores(slots), budget)
      .slots;
}

void ScoredState::compact(std::span<const std::int32_t> old_slot_of) {
  score_->compact(old_slot_of);
  score_->selected();
  if (!selection_.page) return;
  if (!pages_formed_) {
    pages_.start(static_cast<int>(old_slot_of.size()), selection_.page->page_tokens);
    pages_formed_ = true;
    return;
  }
  pages_.compact(old_slot_of);
}

}  // namespace kvscope
