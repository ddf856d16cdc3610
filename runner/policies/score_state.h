// A score: what each cached token of one selection unit is worth. It knows no budget, so arms that
// differ in budget alone share what it observed of a prompt; who leaves is decided by Selection.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "runner/policies/page_wrap.h"
#include "runner/policies/policy_state.h"
#include "runner/policies/protect.h"

namespace kvscope {

class ScoreState {
 public:
  virtual ~ScoreState() = default;
  virtual std::unique_ptr<ScoreState> clone() const = 0;
  // A row attended; the newest token (last slot) joined with it.
  virtual void observe(const VisibleRow& row) = 0;
  // [n_slots], higher stays. Pure.
  virtual std::vector<float> scores(const Slots& slots) const = 0;
  virtual void compact(std::span<const std::int32_t> old_slot_of) = 0;
  // A selection took place: what was observed for it alone is forgotten.
  virtual void selected() {}
  virtual std::int64_t state_bytes() const { return 0; }  // as PolicyState's
  virtual std::string error() const { return {}; }
};

// Who stays, by any score.
struct Selection {
  int budget_tokens = 0;
  Protection protection;
  std::optional<PageWrap> page;  // whole pages leave
  int drop_tokens = 1;           // at least so many leave at once
};

class ScoredState final : public PolicyState {
 public:
  ScoredState(std::unique_ptr<ScoreState> score, const Selection& selection);
  ScoredState(const ScoredState& other);

  std::unique_ptr<PolicyState> clone() const override;
  // The score has seen a whole prompt: pages are formed by the tokens that its cut leaves, which
  // the next compact() tells.
  void starts_from_prompt() { pages_formed_ = false; }
  void observe(const VisibleRow& row) override;
  std::vector<std::int32_t> select(const Slots& slots) const override;
  void compact(std::span<const std::int32_t> old_slot_of) override;
  std::uint64_t nan_scores() const override { return nan_scores_; }
  std::int64_t state_bytes() const override {
    return score_->state_bytes() +
           static_cast<std::int64_t>(sizeof(std::int32_t)) * pages_.n_slots();
  }
  std::string error() const override { return score_->error(); }
  const ScoreState& score() const { return *score_; }

 private:
  std::unique_ptr<ScoreState> score_;
  Selection selection_;
  std::uint64_t nan_scores_ = 0;
  PageMembers pages_;  // of slots, where whole pages leave
  bool pages_formed_ = true;
};

}  // namespace kvscope
