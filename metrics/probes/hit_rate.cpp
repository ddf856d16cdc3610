#include "metrics/probes/hit_rate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "runner/base/exp_weights.h"

namespace kvscope {
namespace {

// Orders like (logit, position) and is unique as positions are; a ghost is odd.
std::uint64_t make_rank_key(float logit, std::int32_t position, bool is_ghost) {
  const float zero_is_positive = logit + 0.0F;
  const auto bits = std::bit_cast<std::uint32_t>(zero_is_positive);
  const std::uint32_t ordered = (bits >> 31U) != 0U ? ~bits : bits | 0x8000'0000U;
  return std::uint64_t{ordered} << 32U | std::uint64_t(std::uint32_t(position)) << 1U |
         std::uint64_t{is_ghost};
}

float logit_of(std::uint64_t rank_key) {
  const auto ordered = std::uint32_t(rank_key >> 32U);
  return std::bit_cast<float>((ordered >> 31U) != 0U ? ordered & 0x7FFF'FFFFU : ~ordered);
}

bool is_visible(std::uint64_t rank_key) { return (rank_key & 1U) == 0U; }

std::int32_t position_of(std::uint64_t rank_key) {
  return std::int32_t(std::uint32_t(rank_key) >> 1U);
}

// Of the k largest keys; reorders them.
Hits hits_of_largest(std::span<std::uint64_t> keys, std::size_t k) {
  if (keys.size() > k) {
    const auto kth = keys.begin() + std::ptrdiff_t(k) - 1;
    std::nth_element(keys.begin(), kth, keys.end(), std::greater<>());
    keys = keys.first(k);
  }
  return {.hits = std::count_if(keys.begin(), keys.end(), is_visible), .of = std::ssize(keys)};
}

// Keeps the k largest keys of a stream in `keys`: collects a few k, then cuts. Few logits of a long
// row pass the bar.
class TopKeys {
 public:
  TopKeys(std::vector<std::uint64_t>& keys, std::size_t k) : keys_(keys), k_(k) { keys_.clear(); }

  void add_all(std::span<const float> logits, std::span<const std::int32_t> positions,
               bool are_ghosts, Universe universe) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] < bar_) continue;
      if (positions[i] < universe.first || positions[i] > universe.last) continue;
      keys_.push_back(make_rank_key(logits[i], positions[i], are_ghosts));
      if (keys_.size() >= 4 * k_) cut();
    }
  }

  void cut() {
    if (keys_.size() <= k_) return;
    const auto kth = keys_.begin() + std::ptrdiff_t(k_) - 1;
    std::nth_element(keys_.begin(), kth, keys_.end(), std::greater<>());
    bar_ = logit_of(*kth);
    keys_.resize(k_);
  }

 private:
  std::vector<std::uint64_t>& keys_;
  std::size_t k_;
  float bar_ = -std::numeric_limits<float>::infinity();
};

constexpr std::size_t kBuckets = 256;
constexpr float kBucketsPerNat =
    8;  // 32 nats: what lies below weighs e^-32 of the largest, and shares the last bucket

void find_buckets(std::span<const float> logits, float top, std::vector<std::uint8_t>& buckets) {
  buckets.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float depth = (top - logits[i]) * kBucketsPerNat;
    const float last = float(kBuckets - 1);
    buckets[i] = std::uint8_t(int(depth < last ? depth : last));
  }
}

}  // namespace

Hits HitRate::hit_at_k(const SplitRow& row, int k, Universe universe) {
  TopKeys top(keys_, std::size_t(k));
  top.add_all(row.visible_logits, row.visible_positions, false, universe);
  top.add_all(row.ghost_logits, row.ghost_positions, true, universe);
  top.cut();
  return {.hits = std::count_if(keys_.begin(), keys_.end(), is_visible), .of = std::ssize(keys_)};
}

void HitRate::begin_row(const SplitRow& row, std::span<const float> visible_weights,
                        std::span<const float> ghost_weights, float top) {
  row_ = row;
  visible_weights_ = visible_weights;
  ghost_weights_ = ghost_weights;
  // Buckets of equal width in logit, the largest first, so that only buckets with a crossing token
  // need selection.
  find_buckets(row.visible_logits, top, visible_bucket_);
  find_buckets(row.ghost_logits, top, ghost_bucket_);
  buckets_.assign(kBuckets, Bucket{});
  for (std::size_t i = 0; i < visible_weights.size(); ++i) {
    Bucket& bucket = buckets_[visible_bucket_[i]];
    bucket.visible_weight += double(visible_weights[i]);
    ++bucket.visible;
  }
  for (std::size_t i = 0; i < ghost_weights.size(); ++i) {
    Bucket& bucket = buckets_[ghost_bucket_[i]];
    bucket.weight += double(ghost_weights[i]);
    ++bucket.n;
  }
  total_weight_ = 0;
  for (Bucket& bucket : buckets_) {
    bucket.weight += bucket.visible_weight;
    bucket.n += bucket.visible;
    total_weight_ += bucket.weight;
  }
}

std::size_t HitRate::bucket_of_rank(std::int64_t n) const {
  std::size_t at = 0;
  for (; at + 1 < kBuckets; ++at) {
    n -= buckets_[at].n;
    if (n <= 0) break;
  }
  return at;
}

TopHits HitRate::top_hits(int k, const Universe& universe, std::int32_t newest) {
  // At most so many positions are outside: with them the top holds k that are inside.
  const std::int64_t outside = std::int64_t{universe.first} + std::max(0, newest - universe.last);
  const std::size_t last = bucket_of_rank(k + outside);
  keys_.clear();
  const auto collect = [&](std::span<const float> logits, std::span<const std::int32_t> positions,
                           std::span<const std::uint8_t> buckets, bool are_ghosts) {
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i] <= last) keys_.push_back(make_rank_key(logits[i], positions[i], are_ghosts));
    }
  };
  collect(row_.visible_logits, row_.visible_positions, visible_bucket_, false);
  collect(row_.ghost_logits, row_.ghost_positions, ghost_bucket_, true);
  TopHits hits;
  hits.all = hits_of_largest(keys_, std::size_t(k));
  std::erase_if(keys_, [&](std::uint64_t key) {
    return position_of(key) < universe.first || position_of(key) > universe.last;
  });
  hits.inside = hits_of_largest(keys_, std::size_t(k));
  return hits;
}

MassHits HitRate::hit_at_mass(const SplitRow& row, std::span<const float> visible_weights,
                              std::span<const float> ghost_weights, double share) {
  MassHits hits;
  begin_row(row, visible_weights, ghost_weights,
            std::max(largest(row.visible_logits), largest(row.ghost_logits)));
  hits_at_masses({&share, 1}, {&hits, 1});
  return hits;
}

void HitRate::hits_at_masses(std::span<const double> shares, std::span<MassHits> out) {
  constexpr std::uint8_t kNoShare = 255;
  std::array<std::uint8_t, kBuckets> share_of;  // the first that ends in the bucket
  share_of.fill(kNoShare);
  crossing_.resize(shares.size());
  for (std::size_t s = 0; s < shares.size(); ++s) {
    Crossing& crossing = crossing_[s];
    out[s] = {};
    crossing.entries.clear();
    crossing.wanted = shares[s] * total_weight_;
    std::size_t at = 0;
    for (; at + 1 < kBuckets && buckets_[at].weight < crossing.wanted; ++at) {
      crossing.wanted -= buckets_[at].weight;
      out[s].hits.of += buckets_[at].n;
      out[s].hits.hits += buckets_[at].visible;
      out[s].mass += buckets_[at].weight;
      out[s].visible_mass += buckets_[at].visible_weight;
    }
    if (share_of[at] == kNoShare) share_of[at] = std::uint8_t(s);
    crossing.entries_of = share_of[at];
  }

  const auto collect = [&](std::span<const float> weights, std::span<const float> logits,
                           std::span<const std::int32_t> positions,
                           std::span<const std::uint8_t> buckets, bool are_ghosts) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::uint8_t share = share_of[buckets[i]];
      if (share == kNoShare) continue;
      crossing_[share].entries.push_back(
          {make_rank_key(logits[i], positions[i], are_ghosts), double(weights[i])});
    }
  };
  collect(visible_weights_, row_.visible_logits, row_.visible_positions, visible_bucket_, false);
  collect(ghost_weights_, row_.ghost_logits, row_.ghost_positions, ghost_bucket_, true);
  for (std::size_t s = 0; s < shares.size(); ++s) {
    std::vector<Entry>& entries = crossing_[crossing_[s].entries_of].entries;
    const std::size_t n_chosen = choose_mass(entries, crossing_[s].wanted);
    out[s].hits.of += std::int64_t(n_chosen);
    for (std::size_t i = 0; i < n_chosen; ++i) {
      const bool visible = is_visible(entries[i].rank_key);
      out[s].hits.hits += visible;
      out[s].mass += entries[i].weight;
      out[s].visible_mass += visible ? entries[i].weight : 0;
    }
  }
}

std::size_t HitRate::choose_mass(std::vector<Entry>& entries, double wanted) {
  // Bisection: entries before `begin` are chosen, the crossing token lies in [begin, end).
  const auto heavier = [](const Entry& x, const Entry& y) { return x.rank_key > y.rank_key; };
  std::size_t begin = 0;
  std::size_t end = entries.size();
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    std::nth_element(entries.begin() + std::ptrdiff_t(begin),
                     entries.begin() + std::ptrdiff_t(middle),
                     entries.begin() + std::ptrdiff_t(end), heavier);
    double upper = 0;
    for (std::size_t i = begin; i < middle; ++i) upper += entries[i].weight;
    if (upper >= wanted) {
      end = middle;
    } else {
      wanted -= upper;
      begin = middle;
    }
  }
  return end;
}

}  // namespace kvscope
