#include "runner/policies/quest_pages.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "runner/policies/top_k.h"

namespace kvscope {

QuestPages::QuestPages(int head_dim, int page_tokens)
    : head_dim_(std::size_t(std::max(head_dim, 0))), page_tokens_(page_tokens) {
  if (head_dim < 1 || page_tokens < 1) {
    throw std::invalid_argument("quest pages: head_dim " + std::to_string(head_dim) +
                                " and page_tokens " + std::to_string(page_tokens) +
                                " must be at least 1");
  }
}

void QuestPages::append(std::span<const float> key) {
  if (n_tokens_ % page_tokens_ == 0) {
    boxes_.insert(boxes_.end(), key.begin(), key.end());
    boxes_.insert(boxes_.end(), key.begin(), key.end());
  } else {
    float* low = boxes_.data() + boxes_.size() - 2 * head_dim_;
    float* high = low + head_dim_;
    for (std::size_t j = 0; j < head_dim_; ++j) {
      low[j] = std::min(low[j], key[j]);
      high[j] = std::max(high[j], key[j]);
    }
  }
  ++n_tokens_;
}

std::span<const float> QuestPages::page_min(int page) const {
  return {boxes_.data() + std::size_t(page) * 2 * head_dim_, head_dim_};
}

std::span<const float> QuestPages::page_max(int page) const {
  return {boxes_.data() + (std::size_t(page) * 2 + 1) * head_dim_, head_dim_};
}

std::vector<float> QuestPages::upper_bounds(std::span<const float> query) const {
  std::vector<float> bounds(std::size_t(n_pages()), 0.0F);
  for (int page = 0; page < n_pages(); ++page) {
    const std::span<const float> low = page_min(page);
    const std::span<const float> high = page_max(page);
    float& bound = bounds[std::size_t(page)];
    for (std::size_t j = 0; j < head_dim_; ++j) {
      bound += std::max(query[j] * low[j], query[j] * high[j]);
    }
  }
  return bounds;
}

std::vector<float> QuestPages::group_upper_bounds(std::span<const float> queries) const {
  std::vector<float> largest(std::size_t(n_pages()), -std::numeric_limits<float>::infinity());
  for (std::size_t at = 0; at < queries.size(); at += head_dim_) {
    const std::vector<float> bounds = upper_bounds(queries.subspan(at, head_dim_));
    for (std::size_t page = 0; page < bounds.size(); ++page) {
      largest[page] = std::max(largest[page], bounds[page]);
    }
  }
  return largest;
}

std::vector<std::int32_t> choose_pages(std::span<const float> upper_bounds, int budget_pages) {
  if (budget_pages < 1) {
    throw std::invalid_argument("quest pages: a budget of " + std::to_string(budget_pages) +
                                " pages cannot hold the newest one");
  }
  if (upper_bounds.empty()) return {};
  const auto newest = std::int32_t(upper_bounds.size()) - 1;
  std::vector<Candidate<float>> others;
  others.reserve(std::size_t(newest));
  for (std::int32_t page = 0; page < newest; ++page) {
    others.push_back({upper_bounds[std::size_t(page)], page, page});
  }
  std::vector<std::int32_t> chosen = top_k(std::move(others), budget_pages - 1).slots;
  chosen.push_back(newest);
  return chosen;
}

}  // namespace kvscope
