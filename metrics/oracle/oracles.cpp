#include "metrics/oracle/oracles.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "metrics/oracle/assignment.h"

namespace kvscope {
namespace {

// How many of the tokens 0 … row may leave after it.
int n_evictable(int row, const OracleSetting& setting) {
  return setting.protect_last ? row : row + 1;
}

// Moves the event's cheapest residents to the schedule.
void evict_cheapest(const FutureMass& future, EvictionEvent event, const OracleSetting& setting,
                    std::vector<int>& residents, Schedule& schedule) {
  const std::span<const double> mass = future.after(event.row);
  const auto end = std::lower_bound(residents.begin(), residents.end(),
                                    n_evictable(event.row, setting));  // residents ascend
  std::vector<int> victims(residents.begin(), end);
  const auto cut = victims.begin() + event.n_victims;
  std::nth_element(victims.begin(), cut - 1, victims.end(), [&](int a, int b) {
    return mass[std::size_t(a)] != mass[std::size_t(b)]
               ? mass[std::size_t(a)] < mass[std::size_t(b)]
               : a < b;
  });
  victims.erase(cut, victims.end());
  std::sort(victims.begin(), victims.end());
  for (const int token : victims) schedule.push_back({event.row, token});
  std::erase_if(residents, [&](int token) {
    return std::binary_search(victims.begin(), victims.end(), token);
  });
}

}  // namespace

template <class Weight>
double step_oracle_lost_mass(const DecodeAttention<Weight>& attention, int budget_tokens) {
  if (budget_tokens < 1) throw std::invalid_argument("O-step: the budget is below 1 token");
  check_attention(attention);
  std::vector<double> others;
  double lost = 0;
  for (int position = attention.prompt_tokens; position < attention.n_tokens; ++position) {
    if (position <= budget_tokens) continue;  // all others fit
    const std::span<const Weight> row = attention.row(position).first(std::size_t(position));
    others.assign(row.begin(), row.end());
    const auto cut = others.end() - budget_tokens;
    std::nth_element(others.begin(), cut, others.end());
    lost = std::accumulate(others.begin(), cut, lost);
  }
  return lost;
}

template double step_oracle_lost_mass(const DecodeAttention<float>&, int);
template double step_oracle_lost_mass(const DecodeAttention<double>&, int);

Schedule optimal_schedule(const FutureMass& future, OracleSetting setting) {
  const std::vector<EvictionEvent> events =
      eviction_events(future.prompt_tokens(), future.n_tokens(), setting.budget_tokens);
  std::vector<AssignmentRow> rows;
  rows.reserve(events.size());
  for (const EvictionEvent& event : events) {
    const auto allowed = std::size_t(n_evictable(event.row, setting));
    rows.push_back({future.after(event.row).first(allowed), event.n_victims});
  }
  const std::vector<int> owners = cheapest_assignment(rows, future.n_tokens());
  Schedule schedule;
  for (int token = 0; token < future.n_tokens(); ++token) {
    const int event = owners[std::size_t(token)];
    if (event >= 0) schedule.push_back({events[std::size_t(event)].row, token});
  }
  std::stable_sort(schedule.begin(), schedule.end(),
                   [](const Eviction& a, const Eviction& b) { return a.row < b.row; });
  return schedule;
}

Schedule greedy_schedule(const FutureMass& future, OracleSetting setting) {
  Schedule schedule;
  std::vector<int> residents;
  int n_seen = 0;
  for (const EvictionEvent& event :
       eviction_events(future.prompt_tokens(), future.n_tokens(), setting.budget_tokens)) {
    while (n_seen <= event.row) residents.push_back(n_seen++);
    evict_cheapest(future, event, setting, residents, schedule);
  }
  return schedule;
}

Schedule prefill_schedule(const FutureMass& future, OracleSetting setting) {
  const auto events =
      eviction_events(future.prompt_tokens(), future.n_tokens(), setting.budget_tokens);
  Schedule schedule;
  if (events.empty() || events.front().row != future.prompt_tokens() - 1) return schedule;
  std::vector<int> residents(std::size_t(future.prompt_tokens()));
  std::iota(residents.begin(), residents.end(), 0);
  evict_cheapest(future, events.front(), setting, residents, schedule);
  return schedule;
}

}  // namespace kvscope
