// quest-1 of policy-vectors.json and policies.md 9.20.
#include "runner/policies/quest_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "tests/runner/policies/random_cases.h"
#include "tests/runner/policies/vector_file.h"

namespace kvscope::testing {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

float dot(std::span<const float> a, std::span<const float> b) {
  float sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
  return sum;
}

struct Keys {
  int head_dim = 1;
  std::vector<float> values = {};  // [n][head_dim]

  int n() const { return int(values.size()) / head_dim; }
  std::span<const float> key(int i) const {
    return std::span(values).subspan(std::size_t(i) * head_dim, head_dim);
  }
  QuestPages pages(int page_tokens) const {
    QuestPages pages(head_dim, page_tokens);
    for (int i = 0; i < n(); ++i) pages.append(key(i));
    return pages;
  }
};

// Share of the full attention that lies on the tokens of these pages.
double captured_mass(const Keys& keys, std::span<const float> query, int page_tokens,
                     const std::vector<std::int32_t>& pages) {
  double captured = 0;
  double all = 0;
  for (int i = 0; i < keys.n(); ++i) {
    const double weight = std::exp(dot(query, keys.key(i)) / std::sqrt(double(keys.head_dim)));
    all += weight;
    if (std::ranges::binary_search(pages, i / page_tokens)) captured += weight;
  }
  return captured / all;
}

TEST(QuestVectors, quest_1) {
  const json& vector = policy_vector("quest-1");
  const json& expect = vector.at("expect");
  const int page_tokens = vector.at("params").at("page");
  const std::vector<float> query = vector.at("input").at("q");
  Keys keys{.head_dim = 2};
  for (const json& key : vector.at("input").at("keys")) {
    keys.values.insert(keys.values.end(), {key[0], key[1]});
  }
  const QuestPages pages = keys.pages(page_tokens);
  EXPECT_EQ(pages.n_pages(), int(expect.at("pages").size()));
  const std::vector<float> bounds = pages.upper_bounds(query);
  EXPECT_EQ(bounds, expect.at("upper_bound").get<std::vector<float>>());
  for (int page = 0; page < pages.n_pages(); ++page) {
    float largest = -INFINITY;
    for (const json& token : expect.at("pages")[page]) {
      largest = std::max(largest, dot(query, keys.key(token)));
    }
    EXPECT_EQ(largest, expect.at("max_true_logit_unscaled")[page].get<float>());
  }
  const auto chosen = choose_pages(bounds, vector.at("params").at("page_budget_incl_last"));
  EXPECT_EQ(chosen, expect.at("selected_pages").get<std::vector<std::int32_t>>());
  // Logits are exact in float; eight exponentials in double.
  EXPECT_NEAR(captured_mass(keys, query, page_tokens, chosen), expect.at("captured_mass"), 1e-14);
}

TEST(QuestPages, boxes_grow_with_the_keys_of_the_newest_page) {
  QuestPages pages(2, 2);
  EXPECT_EQ(pages.n_pages(), 0);
  pages.append(std::vector<float>{1, -1});
  EXPECT_THAT(pages.page_min(0), ElementsAre(1, -1));
  EXPECT_THAT(pages.page_max(0), ElementsAre(1, -1));
  pages.append(std::vector<float>{-2, 3});
  pages.append(std::vector<float>{5, 5});
  EXPECT_EQ(pages.n_tokens(), 3);
  EXPECT_EQ(pages.n_pages(), 2);
  EXPECT_THAT(pages.page_min(0), ElementsAre(-2, -1));
  EXPECT_THAT(pages.page_max(0), ElementsAre(1, 3));
  EXPECT_THAT(pages.page_min(1), ElementsAre(5, 5));
  EXPECT_EQ(pages.metadata_bytes(), 2 * 2 * 2 * sizeof(float));
}

TEST(QuestPages, the_newest_page_is_read_whatever_its_bound_and_newer_equals_win) {
  EXPECT_THAT(choose_pages(std::vector<float>{1, 1, 1, -9}, 1), ElementsAre(3));
  EXPECT_THAT(choose_pages(std::vector<float>{1, 1, 1, -9}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(choose_pages(std::vector<float>{2, 1, 1, -9}, 3), ElementsAre(0, 2, 3));
  EXPECT_THAT(choose_pages({}, 3), ElementsAre());
}

TEST(QuestPages, a_group_chooses_by_the_largest_bound_of_its_heads) {
  QuestPages pages(1, 1);
  for (const float key : {3.0F, -2.0F, 1.0F, 0.0F}) pages.append(std::span(&key, 1));
  EXPECT_THAT(pages.group_upper_bounds(std::vector<float>{1, -2}), ElementsAre(3, 4, 1, 0));
}

TEST(QuestPages, refuses_sizes_below_one) {
  EXPECT_THROW(QuestPages(0, 16), std::invalid_argument);
  EXPECT_THROW(QuestPages(8, 0), std::invalid_argument);
  EXPECT_THROW(choose_pages(std::vector<float>{1}, 0), std::invalid_argument);
}

TEST(QuestProperties, item_20) {
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Keys keys{.head_dim = random.between(1, 16)};
    const int n = random.between(1, 60);
    const int page_tokens = random.between(1, 9);
    const auto draw = [&] { return float(4 * random.uniform() - 2); };
    for (int i = 0; i < n * keys.head_dim; ++i) keys.values.push_back(draw());
    std::vector<float> query(keys.head_dim);
    for (float& value : query) value = draw();

    // The bound holds without a tolerance: rounding is monotonic, and both sums run in one order.
    const QuestPages pages = keys.pages(page_tokens);
    const std::vector<float> bounds = pages.upper_bounds(query);
    for (int i = 0; i < n; ++i) EXPECT_GE(bounds[i / page_tokens], dot(query, keys.key(i)));

    double smaller_budget = 0;
    for (int budget = 1; budget <= pages.n_pages(); ++budget) {
      const auto chosen = choose_pages(bounds, budget);
      EXPECT_EQ(std::ssize(chosen), budget);
      EXPECT_EQ(chosen.back(), pages.n_pages() - 1);
      // Nested sets, summed in the order of the tokens: monotonic in floating point too.
      const double captured = captured_mass(keys, query, page_tokens, chosen);
      EXPECT_GE(captured, smaller_budget);
      smaller_budget = captured;
    }
    EXPECT_EQ(smaller_budget, 1);  // all pages: dense
    EXPECT_EQ(choose_pages(bounds, pages.n_pages() + 5).size(), bounds.size());

    // One token a page: the exact top of the logits besides the newest token.
    const std::vector<float> logits = keys.pages(1).upper_bounds(query);
    std::vector<std::int32_t> order(n - 1);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int a, int b) {
      const float left = dot(query, keys.key(a));
      const float right = dot(query, keys.key(b));
      return left != right ? left > right : a > b;
    });
    const int budget = random.between(1, n);
    order.resize(budget - 1);
    order.push_back(n - 1);
    std::ranges::sort(order);
    EXPECT_EQ(choose_pages(logits, budget), order);
  }
}

}  // namespace
}  // namespace kvscope::testing
