// policies.md 8.1 and 8.2 by token, in double, with full sorts and maps: what the fast probe is
// held to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "runner/engine/probe_sink.h"

namespace kvscope {

class NaiveProbe final : public ProbeSink {
 public:
  explicit NaiveProbe(int group_size) : group_size_(group_size) {}

  std::vector<double> rebound_mass, hit_at_32, hit_at_p90;  // one a row and query head with ghosts
  std::int64_t top_hits = 0, top_misses = 0, events = 0, wrongful = 0, ghost_steps = 0;

  void prompt_cut(int, int, int, std::span<const std::int32_t> ghosts,
                  std::span<const float> ghost_means, std::span<const std::int32_t> residents,
                  std::span<const float> resident_means) override {
    for (std::size_t i = 0; i < ghosts.size(); ++i) {
      ghosts_[ghosts[i]] = {double(ghost_means[i]), true};
    }
    for (std::size_t i = 0; i < residents.size(); ++i) {
      history_[residents[i]].assign(32, double(resident_means[i]));
    }
  }

  void attention_row(const AttentionRow& row) override {
    struct Token {
      std::int32_t position;
      double logit;
      bool is_visible;
    };
    std::vector<Token> tokens;
    for (std::size_t i = 0; i < row.visible_logits.size(); ++i) {
      tokens.push_back({row.visible_positions[i], double(row.visible_logits[i]), true});
    }
    for (std::size_t i = 0; i < row.ghost_logits.size(); ++i) {
      tokens.push_back({row.ghost_positions[i], double(row.ghost_logits[i]), false});
    }
    std::sort(tokens.begin(), tokens.end(), [](const Token& x, const Token& y) {
      return x.logit != y.logit ? x.logit > y.logit : x.position > y.position;
    });
    double total = 0;
    for (const Token& token : tokens) total += std::exp(token.logit);

    double ghost_mass = 0;
    double mass = 0;
    double top = 0, top_of = 0, chosen = 0, chosen_hits = 0;
    for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
      const double weight = std::exp(tokens[rank].logit) / total;
      group_mean_[tokens[rank].position] += weight / group_size_;
      if (!tokens[rank].is_visible) ghost_mass += weight;
      if (rank < 32) ++top_of, top += tokens[rank].is_visible;
      if (mass < 0.9) ++chosen, chosen_hits += tokens[rank].is_visible;
      mass += weight;
    }
    if (!row.ghost_logits.empty()) {
      rebound_mass.push_back(ghost_mass);
      hit_at_32.push_back(top / top_of);
      hit_at_p90.push_back(chosen_hits / chosen);
      top_hits += std::int64_t(top);
      top_misses += std::int64_t(top_of - top);
    }
    if (row.query_head == group_size_ - 1) finish(row);
  }

  void evicted(int, int, int position, int, int) override {
    const std::vector<double>& rows = history_[position];
    double sum = 0;
    const std::size_t n = std::min<std::size_t>(32, rows.size());
    for (std::size_t i = rows.size() - n; i < rows.size(); ++i) sum += rows[i];
    ghosts_[position] = {sum / double(n), true};
    history_.erase(position);
  }

 private:
  struct Ghost {
    double mean;
    bool is_armed;
  };

  void finish(const AttentionRow& row) {
    const double n = double(row.visible_logits.size() + row.ghost_logits.size());
    double smallest = 2;
    for (const std::int32_t position : row.visible_positions) {
      if (position != row.position) smallest = std::min(smallest, group_mean_[position]);
      history_[position].push_back(group_mean_[position]);
    }
    for (const std::int32_t position : row.ghost_positions) {
      Ghost& ghost = ghosts_[position];
      const double weight = group_mean_[position];
      const double threshold = std::max(1 / n, 2 * ghost.mean);
      ++ghost_steps;
      if (ghost.is_armed && weight > threshold) {
        ++events;
        wrongful += weight > smallest;
        ghost.is_armed = false;
      } else if (!ghost.is_armed && weight < threshold / 2) {
        ghost.is_armed = true;
      }
    }
    group_mean_.clear();
  }

  int group_size_;
  std::map<std::int32_t, double> group_mean_;
  std::map<std::int32_t, std::vector<double>> history_;
  std::map<std::int32_t, Ghost> ghosts_;
};

}  // namespace kvscope
