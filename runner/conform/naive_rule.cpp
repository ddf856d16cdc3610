#include "runner/conform/naive_rule.h"

#include <algorithm>
#include <cmath>

#include "runner/base/splitmix.h"

namespace kvscope::conform {

using Statistic = ScanRule::Statistic;

NaiveRule::NaiveRule(const ScanRule& rule, UnitPlace place, const KeptHead& start)
    : rule_(rule), place_(place), positions_(start.positions) {
  if (start.budget_tokens > 0) rule_ = with_budget(rule_, start.budget_tokens);
  for (std::size_t i = 0; i < start.positions.size(); ++i) {
    Token token;
    if (!start.statistic.empty()) token.statistic = start.statistic[i];
    if (rule_.statistic == Statistic::kLastUse)
      token.count = static_cast<std::uint32_t>(start.positions[i]);
    if (!start.count.empty()) token.count = start.count[i];
    tokens_[start.positions[i]] = token;
  }
}

std::unique_ptr<PolicyState> NaiveRule::clone() const { return std::make_unique<NaiveRule>(*this); }

void NaiveRule::observe(const VisibleRow& row) {
  const std::size_t n = row.positions.size();
  positions_.assign(row.positions.begin(), row.positions.end());
  const std::int32_t newest = positions_.back();
  tokens_[newest] = {};
  std::vector<float> a(n, 0.0F);
  for (std::size_t i = 0; i < n; ++i) {
    float sum = row.probabilities[i];
    for (int h = 1; h < row.n_query_heads; ++h) sum += row.probabilities[h * n + i];
    a[i] = sum * (1.0F / static_cast<float>(row.n_query_heads));
  }
  for (std::size_t i = 0; i < n; ++i) {
    Token& token = tokens_[positions_[i]];
    switch (rule_.statistic) {
      case Statistic::kSum:
      case Statistic::kMean:
        token.statistic += a[i];
        break;
      case Statistic::kDecay:
        token.statistic = rule_.decay * token.statistic;
        token.statistic += a[i];
        break;
      case Statistic::kLast:
        token.statistic = a[i];
        break;
      case Statistic::kKeyNorm:
        if (positions_[i] == newest) {
          float squares = 0.0F;
          for (const float x : row.keys) squares += x * x;
          token.statistic = -std::sqrt(squares);
        }
        break;
      case Statistic::kLastUse: {
        // Of the k heaviest: fewer than k are heavier, or equal and newer.
        int ahead = 0;
        for (std::size_t j = 0; j < n; ++j) {
          ahead += a[j] > a[i] || (a[j] == a[i] && positions_[j] > positions_[i]) ? 1 : 0;
        }
        const bool used = rule_.threshold > 0.0F ? a[i] >= use_bar(rule_, static_cast<int>(n))
                                                 : ahead < used_top_k(rule_, static_cast<int>(n));
        if (used || positions_[i] == newest) token.count = static_cast<std::uint32_t>(newest);
        break;
      }
      case Statistic::kNone:
      case Statistic::kHost:
        break;
    }
    if (rule_.statistic == Statistic::kMean) ++token.count;
  }
}

// Of two tokens that may leave.
bool NaiveRule::leaves_before(std::int32_t a, std::int32_t b) const {
  const Token& first = tokens_.at(a);
  const Token& second = tokens_.at(b);
  if (rule_.statistic == Statistic::kLastUse) {
    if (first.count != second.count) return first.count < second.count;
  } else if (rule_.victim == ScanRule::Victim::kLowest) {
    float x = first.statistic;
    float y = second.statistic;
    if (rule_.statistic == Statistic::kMean) {
      x /= static_cast<float>(first.count);
      y /= static_cast<float>(second.count);
    }
    if (x != y) return x < y;
  } else if (rule_.victim == ScanRule::Victim::kPriority) {
    const auto x = token_priority(rule_.seed, place_.layer, place_.kv_head, a);
    const auto y = token_priority(rule_.seed, place_.layer, place_.kv_head, b);
    if (x != y) return x < y;
  }
  return a < b;  // newer wins
}

std::vector<std::int32_t> NaiveRule::select(const Slots& slots) const {
  std::vector<std::int32_t> resident;
  for (const auto& [position, token] : tokens_) resident.push_back(position);
  const std::int32_t newest = resident.back();
  while (static_cast<int>(resident.size()) > rule_.budget_tokens) {
    auto victim = resident.end();
    for (auto it = resident.begin(); it != resident.end(); ++it) {
      if (*it < rule_.sinks || *it > newest - rule_.recent || (rule_.protect_last && *it == newest))
        continue;
      if (victim == resident.end() || leaves_before(*it, *victim)) victim = it;
    }
    if (victim == resident.end()) victim = resident.begin();  // too many are protected
    resident.erase(victim);
  }
  std::vector<std::int32_t> keep;
  for (std::size_t slot = 0; slot < slots.positions.size(); ++slot) {
    if (std::binary_search(resident.begin(), resident.end(), slots.positions[slot]))
      keep.push_back(static_cast<std::int32_t>(slot));
  }
  return keep;
}

void NaiveRule::compact(std::span<const std::int32_t> old_slot_of) {
  std::map<std::int32_t, Token> tokens;
  std::vector<std::int32_t> positions;
  for (const std::int32_t slot : old_slot_of) {
    positions.push_back(positions_[slot]);
    tokens[positions_[slot]] = tokens_.at(positions_[slot]);
  }
  tokens_ = std::move(tokens);
  positions_ = std::move(positions);
}

}  // namespace kvscope::conform
