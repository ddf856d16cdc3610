// policies.md 8.1 to 8.6 of each row in double, with full sorts: what the fast probe's quantities
// are held to. Histories and events are NaiveProbe's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runner/engine/probe_sink.h"

namespace kvscope {

class NaiveQuantities final : public ProbeSink {
 public:
  explicit NaiveQuantities(int group_size) : group_size_(group_size) {}

  std::map<std::string, std::vector<double>> values;  // by the metric's name

  void prompt_cut(int, int, int prompt_tokens, std::span<const std::int32_t> ghosts,
                  std::span<const float> ghost_means, std::span<const std::int32_t> residents,
                  std::span<const float> resident_means) override {
    first_step_ = prompt_tokens;
    last_ = prompt_tokens - 1;
    std::vector<std::pair<float, std::int32_t>> candidates;
    const auto collect = [&](std::span<const std::int32_t> at, std::span<const float> means) {
      for (std::size_t i = 0; i < at.size(); ++i) {
        if (at[i] >= 4 && at[i] <= last_ - 32) candidates.emplace_back(means[i], at[i]);
      }
    };
    collect(ghosts, ghost_means);
    collect(residents, resident_means);
    std::sort(candidates.begin(), candidates.end(), std::greater<>());
    for (std::size_t i = 0; i < std::min<std::size_t>(32, candidates.size()); ++i) {
      keys_.insert(candidates[i].second);
    }
    for (const std::int32_t ghost : ghosts) add("eviction_age_tokens", last_ - ghost);
  }

  void attention_row(const AttentionRow& row) override {
    last_ = row.position;
    if (row.query_head == 0) {
      full_mean_.clear();
      drop_ = delta_ = 0;
      n_deltas_ = 0;
    }
    struct Token {
      double logit;
      std::int32_t position;
      bool visible;
      double weight;  // a*
    };
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < row.visible_logits.size(); ++i) {
      tokens.push_back({double(row.visible_logits[i]), row.visible_positions[i], true, 0});
    }
    for (std::size_t i = 0; i < row.ghost_logits.size(); ++i) {
      tokens.push_back({double(row.ghost_logits[i]), row.ghost_positions[i], false, 0});
    }
    double total = 0;
    for (const Token& t : tokens) total += std::exp(t.logit);
    double kept = 0;
    for (Token& t : tokens) {
      t.weight = std::exp(t.logit) / total;
      kept += t.visible ? t.weight : 0;
      full_mean_[t.position] += t.weight / group_size_;
    }
    double h_visible = 0, h_full = 0, sinks = 0, recent = 0, largest = 0;
    for (const Token& t : tokens) {
      h_full -= t.weight * std::log(t.weight);
      if (!t.visible) continue;
      const double p = t.weight / kept;
      h_visible -= p * std::log(p);
      sinks += t.position < 4 ? p : 0;
      recent += t.position > row.position - 32 ? p : 0;
      largest = std::max(largest, p);
    }
    const double n_visible = double(row.visible_logits.size());
    const double normalised = n_visible > 1 ? h_visible / std::log(n_visible) : 1;
    if (row.ghost_logits.empty()) {
      const auto [it, fresh] = before_.try_emplace(row.query_head, normalised);
      it->second += (normalised - it->second) * 2 / 33;
      return;
    }
    if (first_step_ < 0) first_step_ = row.position;
    add("entropy_nats", h_visible);
    add("effective_tokens", std::exp(h_visible));
    add("normalised_entropy", normalised);
    if (before_.count(row.query_head) > 0) {
      add("delta_normalised_entropy", normalised - before_[row.query_head]);
    }
    add("delta_normalised_entropy_full", normalised - h_full / std::log(double(tokens.size())));
    add("largest_weight", largest);
    add("sink_share", sinks);
    add("recent_share", recent);

    std::sort(tokens.begin(), tokens.end(), [](const Token& x, const Token& y) {
      return x.logit != y.logit ? x.logit > y.logit : x.position > y.position;
    });
    const auto hit = [&](const char* name, double share, const char* mass_name) {
      double mass = 0, visible_mass = 0, n = 0, hits = 0;
      for (const Token& t : tokens) {
        if (mass >= share) break;
        mass += t.weight;
        visible_mass += t.visible ? t.weight : 0;
        ++n;
        hits += t.visible;
      }
      add(name, hits / n);
      if (mass_name != nullptr) add(mass_name, visible_mass / mass);
    };
    hit("hit_at_50_mass", 0.5, nullptr);
    hit("hit_at_90_mass", 0.9, "mass_at_90_mass");
    hit("hit_at_99_mass", 0.99, nullptr);
    double inside = 0, inside_hits = 0, inside_mass = 0, inside_kept = 0;
    for (const Token& t : tokens) {
      if (t.position < 4 || t.position > row.position - 32) continue;
      inside_mass += t.weight;
      inside_kept += t.visible ? t.weight : 0;
      if (inside == 32) continue;
      ++inside;
      inside_hits += t.visible;
    }
    if (inside > 0) add("nontrivial_hit_at_32", inside_hits / inside);
    if (inside > 0) add("nontrivial_mass_hit", inside_kept / inside_mass);

    for (const Token& t : tokens) {
      if (keys_.count(t.position) == 0) continue;
      drop_ += (t.weight - (t.visible ? t.weight / kept : 0)) / group_size_;
    }
    if (!row.visible_output.empty()) {
      double error = 0, full = 0;
      for (std::size_t i = 0; i < row.visible_output.size(); ++i) {
        const double with_all =
            kept * double(row.visible_output[i]) + (1 - kept) * double(row.ghost_output[i]);
        error += std::pow(double(row.visible_output[i]) - with_all, 2);
        full += with_all * with_all;
      }
      add("output_perturbation", std::sqrt(error / full));
      delta_ += std::sqrt(error / full) / group_size_;
      ++n_deltas_;
    }
    if (row.query_head == group_size_ - 1) finish(row);
  }

  void evicted(int, int, int position, int, int) override {
    add("eviction_age_tokens", last_ - position);
  }

 private:
  void add(const std::string& name, double value) { values[name].push_back(value); }

  void finish(const AttentionRow& row) {
    if (!keys_.empty()) add("key_token_drop", drop_);
    if ((row.position - first_step_) % 4 != 0) return;
    std::vector<double> ghosts, residents;
    double rebound = 0;
    for (const std::int32_t position : row.ghost_positions) {
      ghosts.push_back(full_mean_[position]);
      rebound += full_mean_[position];
    }
    for (const std::int32_t position : row.visible_positions) {
      if (position != row.position) residents.push_back(full_mean_[position]);
    }
    std::sort(ghosts.begin(), ghosts.end(), std::greater<>());
    std::sort(residents.begin(), residents.end());
    int needed = 0, spare = 0;
    for (double sum = 0; sum < 0.8 * rebound * (1 - 1e-6);) sum += ghosts[std::size_t(needed++)];
    for (double sum = 0; spare < std::ssize(residents); ++spare) {
      sum += residents[std::size_t(spare)];
      if (sum > 0.1 * rebound) break;
    }
    const bool healthy = rebound < 0.05 || (n_deltas_ > 0 && delta_ < 0.05);
    add("diagnosed_healthy", healthy);
    add("diagnosed_wrong_place", !healthy && needed <= spare);
    add("diagnosed_too_much", !healthy && needed > spare);
    if (healthy) return;
    add("ghosts_needed", needed);
    add("spare_slots", spare);
    if (needed > spare) {
      add("suggested_budget_tokens", double(row.visible_positions.size()) - 1 + needed - spare);
    }
  }

  int group_size_;
  int first_step_ = -1;
  std::int32_t last_ = 0;
  std::set<std::int32_t> keys_;
  std::map<int, double> before_;
  std::map<std::int32_t, double> full_mean_;
  double drop_ = 0, delta_ = 0;
  int n_deltas_ = 0;
};

}  // namespace kvscope
