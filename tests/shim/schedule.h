// Which of a block's threads runs next: priorities (ranks) and the set of those that can run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "tests/shim/engine.h"

namespace kvscope::shim {

inline constexpr unsigned kMostThreads = 1024;  // of a block

class Schedule {
 public:
  void seed(std::uint64_t value) { state_ = value * 0x9E3779B97F4A7C15ULL + 1; }
  unsigned draw(unsigned n) {  // in [0, n)
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return unsigned((state_ >> 20) % n);
  }

  void start_block(unsigned n_threads, Order order) {
    n_threads_ = n_threads;
    order_ = order;
    std::fill(std::begin(ready_), std::end(ready_), 0);
    draw_ranks();
  }

  // Only while no thread can run: who can is noted by rank.
  void draw_ranks() {
    for (unsigned i = 0; i < n_threads_; ++i)
      rank_of_[i] = std::uint16_t(order_ == Order::kReverse ? n_threads_ - 1 - i : i);
    if (order_ == Order::kRandom) {
      const unsigned n_warps = n_threads_ / 32;  // a partial last warp keeps its place
      for (unsigned w = n_warps; w > 1; --w) {
        std::uint16_t* other = rank_of_ + draw(w) * 32;
        std::swap_ranges(rank_of_ + (w - 1) * 32, rank_of_ + w * 32, other);
      }
      for (unsigned w = 0; w < n_warps; ++w) {
        for (unsigned lane = 32; lane > 1; --lane)
          std::swap(rank_of_[w * 32 + lane - 1], rank_of_[w * 32 + draw(lane)]);
      }
    }
    for (unsigned i = 0; i < n_threads_; ++i) thread_of_[rank_of_[i]] = std::uint16_t(i);
  }

  void make_ready(unsigned thread) {
    const unsigned rank = rank_of_[thread];
    ready_[rank / 64] |= std::uint64_t{1} << (rank % 64);
  }

  // The first thread that can run, which then no longer waits to; -1: none.
  int take() {
    const unsigned n_words = (n_threads_ + 63) / 64;
    const unsigned start = order_ == Order::kRandom && draw(8) == 0 ? draw(n_words) : 0;
    for (unsigned i = 0; i < n_words; ++i) {
      const unsigned w = (start + i) % n_words;
      if (ready_[w] == 0) continue;
      const unsigned rank = w * 64 + unsigned(__builtin_ctzll(ready_[w]));
      ready_[w] &= ready_[w] - 1;
      return thread_of_[rank];
    }
    return -1;
  }

  Order order() const { return order_; }

 private:
  Order order_ = Order::kForward;
  unsigned n_threads_ = 0;
  std::uint64_t state_ = 1;
  std::uint64_t ready_[kMostThreads / 64] = {};  // bit set over ranks
  std::uint16_t rank_of_[kMostThreads] = {};
  std::uint16_t thread_of_[kMostThreads] = {};
};

}  // namespace kvscope::shim
