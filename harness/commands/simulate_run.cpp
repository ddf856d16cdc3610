#include "harness/commands/simulate_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "metrics/oracle/skill.h"
#include "runner/base/error.h"
#include "runner/base/thread_pool.h"
#include "runner/policies/parts.h"
#include "runner/trace/replay_policy.h"
#include "runner/trace/trace_replay.h"

namespace kvscope {
namespace {

// Random arms stand for chance at a budget, with or without evictions after the prompt.
using ControlKey = std::pair<int, bool>;  // budget, grows

// An arm and its place among the replayed ones; nothing where it never evicts.
struct Place {
  std::shared_ptr<const Policy> policy;
  std::optional<std::size_t> replayed;
};

class Simulation {
 public:
  Simulation(const TraceReader& trace, const SimulateRun& run, int n_threads)
      : trace_(trace),
        facts_(trace.facts()),
        run_(run),
        n_rows_(facts_.n_tokens - run.prompt_tokens),
        backend_(make_cpu_backend(n_threads)),
        pool_(run.oracles ? n_threads : 1),
        full_(facts_, run.prompt_tokens, run.oracles) {
    for (const ArmPlan& plan : run.arms) add_arm(plan);
    if (run.oracles) add_controls();
  }

  std::optional<std::vector<SimulatedArm>> execute(const std::function<bool()>& stop,
                                                   const std::function<void(int)>& advanced) {
    ReplayRequest request{run_.prompt_tokens, &full_, {}};
    for (std::size_t i = 0; i < policies_.size(); ++i)
      request.arms.push_back({policies_[i], probes_[i].get()});
    TraceReplay replay(facts_, *backend_, std::move(request));
    const auto layer_done = [&](std::size_t index) {
      add_layer(replay, index);
      if (run_.oracles) add_oracles(stop);
      if (advanced) advanced(1);
    };
    const auto read = [&](std::size_t index) { return trace_.read_layer(index); };
    if (!replay.run(read, layer_done, stop)) return std::nullopt;
    if (stop && stop()) return std::nullopt;
    return std::move(arms_);
  }

 private:
  std::shared_ptr<const Policy> fit(const PolicySpec& spec, const Budget& budget) const {
    FitRequest request;
    request.budget = budget;
    request.in_stream = run_.prompt_tokens == 0;
    request.length = request.in_stream ? facts_.n_tokens : run_.prompt_tokens;
    return fit_replay_policy(spec, request, facts_);
  }

  std::size_t replayed(std::shared_ptr<const Policy> policy) {
    policies_.push_back(std::move(policy));
    probes_.push_back(std::make_unique<HitProbe>(facts_, full_));
    return policies_.size() - 1;
  }

  // The best schedule at a budget bounds what holds that budget after every row, no more.
  void require_bounded(const PolicySpec& spec) const {
    const bool streams = spec.prefill == PrefillMode::kStreaming && spec.chunk > 1;
    if (spec.every == 1 && !streams && !compose(spec).page && !spec.info->own_page) return;
    throw UsageError("policy \"" + spec.canonical +
                     "\" holds more than its budget between selections, so the oracles at that "
                     "budget do not bound it; leave --oracles or the policy out");
  }

  void add_arm(const ArmPlan& plan) {
    if (run_.oracles) require_bounded(plan.policy);
    Place place{fit(plan.policy, plan.budget), {}};
    SimulatedArm arm{plan, place.policy->budget_tokens(), false, {}};
    arm.grows = !place.policy->scan_rule().has_value();
    if (!place.policy->never_evicts()) place.replayed = replayed(place.policy);
    arms_.push_back(std::move(arm));
    places_.push_back(std::move(place));
  }

  void add_controls() {
    for (const SimulatedArm& arm : arms_) {
      const auto [control, is_new] = controls_.try_emplace({arm.budget_tokens, arm.grows});
      if (!is_new) continue;
      for (int seed = 1; seed <= run_.random_seeds; ++seed) {
        const std::string text = "random:seed=" + std::to_string(seed);
        const auto policy = fit(parse_policy(arm.grows ? text + ":decode=grow" : text),
                                {.permille = {}, .tokens = arm.budget_tokens});
        if (policy->never_evicts()) break;
        control->second.push_back(replayed(policy));
      }
    }
  }

  double lost_mass(std::size_t replayed, int layer, int kv_head) const {
    return probes_[replayed]->hits(layer, kv_head).lost_mass / double(full_.group_size());
  }

  void add_layer(const TraceReplay& replay, std::size_t index) {
    const int layer = facts_.layers[index];
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      for (int h = 0; h < facts_.n_kv_heads; ++h) {
        SimulatedHead head;
        head.budget_tokens = arms_[i].budget_tokens;
        if (const auto place = places_[i].replayed) {
          head.hits = probes_[*place]->hits(layer, h);
          head.lost_mass = lost_mass(*place, layer, h);
          head.budget_tokens = replay.unit_budget(*place, index, h);
          if (run_.oracles && head.budget_tokens == arms_[i].budget_tokens)
            head.random = random_loss(arms_[i], layer, h);
        } else {
          const auto n = std::int64_t(n_rows_) * full_.group_size();
          head.hits = {n, 0.0, double(n), double(n)};
        }
        arms_[i].heads.push_back(std::move(head));
      }
    }
  }

  std::optional<double> random_loss(const SimulatedArm& arm, int layer, int kv_head) const {
    const auto control = controls_.find({arm.budget_tokens, arm.grows});
    if (control == controls_.end() || control->second.empty()) return std::nullopt;
    double sum = 0.0;
    for (const std::size_t place : control->second) sum += lost_mass(place, layer, kv_head);
    return sum / double(control->second.size());
  }

  // Of the layer that was replayed last: one solution for all arms of a unit that share a budget.
  void add_oracles(const std::function<bool()>& stop) {
    using Key = std::tuple<int, int, bool>;  // KV head, budget, protect_last
    const auto first = arms_.front().heads.size() - std::size_t(facts_.n_kv_heads);
    std::map<Key, OracleLosses> losses;
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      for (int h = 0; h < facts_.n_kv_heads; ++h) losses.try_emplace(key_of(i, first, h));
    }
    std::vector<std::unique_ptr<FutureMass>> futures(std::size_t(facts_.n_kv_heads));
    pool_.parallel_for(futures.size(), [&](std::size_t h, int) {
      futures[h] = std::make_unique<FutureMass>(full_.attention(int(h)));
    });
    std::vector<std::map<Key, OracleLosses>::iterator> tasks;
    for (auto at = losses.begin(); at != losses.end(); ++at) tasks.push_back(at);
    pool_.parallel_for(tasks.size(), [&](std::size_t i, int) {
      if (stop && stop()) return;
      const auto [kv_head, budget, protect_last] = tasks[i]->first;
      tasks[i]->second = oracle_losses(full_.attention(kv_head), *futures[std::size_t(kv_head)],
                                       {std::max(1, budget), protect_last}, run_.prompt_tokens > 0);
    });
    for (std::size_t i = 0; i < arms_.size(); ++i) {
      for (int h = 0; h < facts_.n_kv_heads; ++h) {
        SimulatedHead& head = arms_[i].heads[first + std::size_t(h)];
        head.oracles = losses.at(key_of(i, first, h));
        head.bound = arms_[i].grows ? head.oracles->prefill : head.oracles->optimal;
      }
    }
  }

  std::tuple<int, int, bool> key_of(std::size_t arm, std::size_t first, int kv_head) const {
    return {kv_head, arms_[arm].heads[first + std::size_t(kv_head)].budget_tokens,
            arms_[arm].plan.policy.protect_last};
  }

  const TraceReader& trace_;
  const TraceFacts& facts_;
  const SimulateRun& run_;
  int n_rows_;
  std::unique_ptr<Backend> backend_;
  ThreadPool pool_;
  FullRows full_;
  std::vector<SimulatedArm> arms_;
  std::vector<Place> places_;                            // [arms_]
  std::vector<std::shared_ptr<const Policy>> policies_;  // replayed: arms, then controls
  std::vector<std::unique_ptr<HitProbe>> probes_;        // likewise
  std::map<ControlKey, std::vector<std::size_t>> controls_;
};

template <class Part>
std::optional<double> mean_of(std::span<const SimulatedHead> heads, const Part& part) {
  double sum = 0.0;
  for (const SimulatedHead& head : heads) {
    const std::optional<double> value = part(head);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return heads.empty() ? std::nullopt : std::optional(sum / double(heads.size()));
}

std::optional<double> mean_oracle(std::span<const SimulatedHead> heads,
                                  double OracleLosses::*loss) {
  return mean_of(heads, [loss](const SimulatedHead& head) {
    return head.oracles ? std::optional((*head.oracles).*loss) : std::nullopt;
  });
}

}  // namespace

SimulatedFigures figures_of(std::span<const SimulatedHead> heads) {
  SimulatedFigures figures;
  HeadHits hits;
  for (const SimulatedHead& head : heads) hits.add(head.hits);
  if (hits.n > 0) {
    figures.mass_hit = hits.mass_hit();
    figures.hit_at_32 = hits.hit_at_32 / double(hits.n);
    figures.hit_at_p90 = hits.hit_at_p90 / double(hits.n);
  }
  figures.lost_mass = mean_of(heads, [](const SimulatedHead& head) {
                        return std::optional(head.lost_mass);
                      }).value_or(0.0);
  figures.step_loss = mean_oracle(heads, &OracleLosses::step);
  figures.optimal_loss = mean_oracle(heads, &OracleLosses::optimal);
  figures.greedy_loss = mean_oracle(heads, &OracleLosses::greedy);
  figures.prefill_loss = mean_of(heads, [](const SimulatedHead& head) {
    return head.oracles ? head.oracles->prefill : std::nullopt;
  });
  figures.random_loss = mean_of(heads, [](const SimulatedHead& head) { return head.random; });
  const auto bound = mean_of(heads, [](const SimulatedHead& head) { return head.bound; });
  if (!bound) return figures;
  figures.regret = regret(figures.lost_mass, *bound);
  figures.share = regret_share(figures.lost_mass, *bound);
  if (figures.random_loss) figures.skill = skill(figures.lost_mass, *bound, *figures.random_loss);
  return figures;
}

std::optional<std::vector<SimulatedArm>> simulate(const TraceReader& trace, const SimulateRun& run,
                                                  int n_threads, const std::function<bool()>& stop,
                                                  const std::function<void(int)>& advanced) {
  return Simulation(trace, run, n_threads).execute(stop, advanced);
}

}  // namespace kvscope
