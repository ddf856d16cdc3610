#include "metrics/oracle/schedule.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace kvscope {

std::vector<EvictionEvent> eviction_events(int prompt_tokens, int n_tokens, int budget_tokens) {
  if (budget_tokens < 1) {
    throw std::invalid_argument("eviction events: the budget is " + std::to_string(budget_tokens) +
                                " tokens; at least 1 stays");
  }
  std::vector<EvictionEvent> events;
  for (int row = std::max(prompt_tokens - 1, budget_tokens); row < n_tokens - 1; ++row) {
    const int n_victims = row == prompt_tokens - 1 ? prompt_tokens - budget_tokens : 1;
    if (n_victims > 0) events.push_back({row, n_victims});
  }
  return events;
}

double lost_mass(const FutureMass& future, std::span<const Eviction> schedule) {
  std::vector<bool> is_gone(std::size_t(future.n_tokens()), false);
  double lost = 0;
  for (const auto& [row, token] : schedule) {
    const bool exists = token >= 0 && token <= row && row < future.n_tokens();
    if (!exists || is_gone[std::size_t(token)]) {
      throw std::invalid_argument("schedule: token " + std::to_string(token) +
                                  " cannot be evicted after row " + std::to_string(row) +
                                  (exists ? ": it left before" : ": it does not exist"));
    }
    is_gone[std::size_t(token)] = true;
    lost += future.after(std::max(row, future.prompt_tokens() - 1))[std::size_t(token)];
  }
  return lost;
}

}  // namespace kvscope
