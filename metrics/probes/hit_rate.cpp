#include "metrics/probes/hit_rate.h"

#include <algorithm>
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

// Falls with the logit and never rises, whatever the rounding.
std::size_t bucket_of(float logit, float top) {
  const float depth = (top - logit) * kBucketsPerNat;
  return depth < float(kBuckets - 1) ? std::size_t(int(depth)) : kBuckets - 1;
}

}  // namespace

Hits HitRate::hit_at_k(const SplitRow& row, int k, Universe universe) {
  TopKeys top(keys_, std::size_t(k));
  top.add_all(row.visible_logits, row.visible_positions, false, universe);
  top.add_all(row.ghost_logits, row.ghost_positions, true, universe);
  top.cut();
  return {.hits = std::count_if(keys_.begin(), keys_.end(), is_visible), .of = std::ssize(keys_)};
}

Hits HitRate::hit_at_mass(const SplitRow& row, std::span<const float> visible_weights,
                          std::span<const float> ghost_weights, double share) {
  // Buckets of equal width in logit, the largest first, so that only the bucket with the crossing
  // token needs selection.
  const float top = std::max(largest(row.visible_logits), largest(row.ghost_logits));
  buckets_.assign(kBuckets, Bucket{});
  for (std::size_t i = 0; i < visible_weights.size(); ++i) {
    Bucket& bucket = buckets_[bucket_of(row.visible_logits[i], top)];
    bucket.weight += double(visible_weights[i]);
    ++bucket.n;
    ++bucket.visible;
  }
  for (std::size_t i = 0; i < ghost_weights.size(); ++i) {
    Bucket& bucket = buckets_[bucket_of(row.ghost_logits[i], top)];
    bucket.weight += double(ghost_weights[i]);
    ++bucket.n;
  }

  double total = 0;
  for (const Bucket& bucket : buckets_) total += bucket.weight;
  double wanted = share * total;
  Hits result;
  std::size_t crossing = 0;
  for (; crossing + 1 < kBuckets && buckets_[crossing].weight < wanted; ++crossing) {
    wanted -= buckets_[crossing].weight;
    result.of += buckets_[crossing].n;
    result.hits += buckets_[crossing].visible;
  }

  entries_.clear();
  const auto collect = [&](std::span<const float> weights, std::span<const float> logits,
                           std::span<const std::int32_t> positions, bool are_ghosts) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (bucket_of(logits[i], top) != crossing) continue;
      entries_.push_back({make_rank_key(logits[i], positions[i], are_ghosts), double(weights[i])});
    }
  };
  collect(visible_weights, row.visible_logits, row.visible_positions, false);
  collect(ghost_weights, row.ghost_logits, row.ghost_positions, true);
  const std::size_t n_chosen = choose_mass(wanted);
  result.of += std::int64_t(n_chosen);
  for (std::size_t i = 0; i < n_chosen; ++i) result.hits += is_visible(entries_[i].rank_key);
  return result;
}

std::size_t HitRate::choose_mass(double wanted) {
  // Bisection: entries before `begin` are chosen, the crossing token lies in [begin, end).
  const auto heavier = [](const Entry& x, const Entry& y) { return x.rank_key > y.rank_key; };
  std::size_t begin = 0;
  std::size_t end = entries_.size();
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    std::nth_element(entries_.begin() + std::ptrdiff_t(begin),
                     entries_.begin() + std::ptrdiff_t(middle),
                     entries_.begin() + std::ptrdiff_t(end), heavier);
    double upper = 0;
    for (std::size_t i = begin; i < middle; ++i) upper += entries_[i].weight;
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
