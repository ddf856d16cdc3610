#include "runner/engine/likeliest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "runner/base/splitmix.h"

namespace kvscope {
namespace {

using Ids = std::vector<std::int32_t>;

Ids by_sorting(const std::vector<float>& logits, int n) {
  Ids ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  ids.resize(std::min(ids.size(), std::size_t(n)));
  return ids;
}

TEST(Likeliest, ComesLargestFirstAndTheSmallerIdWinsATie) {
  const std::vector<float> logits = {1, 5, 3, 5, -2, 5};
  EXPECT_EQ(likeliest_tokens(logits, 1), (Ids{1}));
  EXPECT_EQ(likeliest_tokens(logits, 2), (Ids{1, 3}));
  EXPECT_EQ(likeliest_tokens(logits, 4), (Ids{1, 3, 5, 2}));
  EXPECT_EQ(likeliest_tokens(logits, 9), (Ids{1, 3, 5, 2, 0, 4}));
  EXPECT_EQ(likeliest_tokens(logits, 0), Ids{});
  EXPECT_EQ(likeliest_tokens({}, 3), Ids{});
}

TEST(Likeliest, EqualsASortOfEverything) {
  for (const int n_vocab : {1, 63, 64, 65, 1000, 49152}) {
    for (const int distinct : {3, 1000, 1 << 20}) {  // few values: many ties
      std::vector<float> logits(n_vocab);
      for (int i = 0; i < n_vocab; ++i) {
        logits[i] = float(smix(std::uint64_t(i) * 77 + distinct) % distinct) - float(distinct / 2);
      }
      for (const int n : {1, 2, 10, 64, 1000}) {
        EXPECT_EQ(likeliest_tokens(logits, n), by_sorting(logits, n)) << n_vocab << ' ' << n;
      }
    }
  }
}

TEST(Likeliest, TakesInfinities) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits(200, -kInfinity);
  logits[150] = 1;
  logits[170] = kInfinity;
  EXPECT_EQ(likeliest_tokens(logits, 4), (Ids{170, 150, 0, 1}));
}

}  // namespace
}  // namespace kvscope
