#include "runner/backend/cpu/victims.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runner/policies/last_use.h"

namespace kvscope::cpu {

void update_statistic(const ScanRule& rule, std::span<const float> probabilities, int n_query_heads,
                      HeadCache& head) {
  const int n = head.n_slots();
  if (!keeps_statistic(rule.statistic) && !keeps_count(rule.statistic)) return;
  if (rule.statistic == ScanRule::Statistic::kKeyNorm) return;  // known since the token joined
  if (rule.statistic == ScanRule::Statistic::kLastUse) {
    std::vector<float> a(probabilities.begin(), probabilities.begin() + n);
    const float share = 1.0F / float(n_query_heads);
    for (int h = 1; h < n_query_heads; ++h) {
      for (int slot = 0; slot < n; ++slot) a[slot] += probabilities[std::size_t(h) * n + slot];
    }
    for (float& value : a) value *= share;
    mark_used(rule, a, head.positions(), head.count);
    return;
  }
  const float share = 1.0F / float(n_query_heads);
  for (int slot = 0; slot < n; ++slot) {
    float a = probabilities[slot];
    for (int h = 1; h < n_query_heads; ++h) a += probabilities[std::size_t(h) * n + slot];
    a *= share;
    float& statistic = head.statistic[slot];
    switch (rule.statistic) {
      case ScanRule::Statistic::kNone:
      case ScanRule::Statistic::kLastUse:
      case ScanRule::Statistic::kKeyNorm:
      case ScanRule::Statistic::kHost:
        break;
      case ScanRule::Statistic::kSum:
        statistic += a;
        break;
      case ScanRule::Statistic::kMean:
        statistic += a;
        ++head.count[slot];
        break;
      case ScanRule::Statistic::kDecay:
        statistic = rule.decay * statistic + a;
        break;
      case ScanRule::Statistic::kLast:
        statistic = a;
        break;
    }
  }
}

namespace {

bool is_protected(const ScanRule& rule, int position, int newest) {
  return position < rule.sinks || position > newest - rule.recent ||
         (rule.protect_last && position == newest);
}

// True if slot a leaves before slot b.
bool leaves_before(const ScanRule& rule, const HeadCache& head, int a, int b) {
  const auto positions = head.positions();
  switch (rule.victim) {
    case ScanRule::Victim::kOldest:
      break;
    case ScanRule::Victim::kPriority:
      if (head.priority[a] != head.priority[b]) return head.priority[a] < head.priority[b];
      break;
    case ScanRule::Victim::kLowest: {
      if (rule.statistic == ScanRule::Statistic::kLastUse) {
        if (head.count[a] != head.count[b]) return head.count[a] < head.count[b];
        break;
      }
      const auto score = [&](int slot) {
        return rule.statistic == ScanRule::Statistic::kMean
                   ? head.statistic[slot] / float(head.count[slot])
                   : head.statistic[slot];
      };
      const float x = score(a);
      const float y = score(b);
      if (std::isnan(x) != std::isnan(y)) return std::isnan(x);
      if (x != y && !std::isnan(x)) return x < y;
      break;
    }
  }
  return positions[a] < positions[b];
}

}  // namespace

void choose_victims(const ScanRule& rule, int newest_position, const HeadCache& head,
                    std::vector<int>& victims) {
  victims.clear();
  const int surplus = head.n_slots() - rule.budget_tokens;
  if (surplus <= 0) return;
  const auto positions = head.positions();
  const auto before = [&](int a, int b) {
    const bool a_protected = is_protected(rule, positions[a], newest_position);
    const bool b_protected = is_protected(rule, positions[b], newest_position);
    if (a_protected != b_protected) return b_protected;
    // More protected than the budget holds: the newest of them stay (policies.md 1.4).
    return a_protected ? positions[a] < positions[b] : leaves_before(rule, head, a, b);
  };
  if (surplus == 1) {  // every step of the steady state
    int victim = 0;
    for (int slot = 1; slot < head.n_slots(); ++slot) {
      if (before(slot, victim)) victim = slot;
    }
    victims.push_back(victim);
    return;
  }
  victims.resize(head.n_slots());
  std::iota(victims.begin(), victims.end(), 0);
  std::partial_sort(victims.begin(), victims.begin() + surplus, victims.end(), before);
  victims.resize(surplus);
}

}  // namespace kvscope::cpu
