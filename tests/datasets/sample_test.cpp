#include "datasets/sample.h"

#include <gtest/gtest.h>

#include <set>

#include "datasets/base/random.h"

namespace kvscope {
namespace {

TEST(InputHash, separates_the_lists) {
  const std::vector<std::int32_t> a = {1, 2};
  const std::vector<std::int32_t> b = {3};
  const std::vector<std::int32_t> ab = {1, 2, 3};
  const std::set<std::string> hashes = {input_hash(a, b, {}), input_hash(ab, {}, {}),
                                        input_hash({}, ab, {}), input_hash({}, {}, ab),
                                        input_hash(a, {}, b)};
  EXPECT_EQ(hashes.size(), 5U);
}

TEST(InputHash, is_sha256_of_little_endian_counts_and_ids) {
  // printf '\2\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\3\0\0\0\0\0\0\0' | sha256sum
  EXPECT_EQ(input_hash(std::vector<std::int32_t>{1, 2}, std::vector<std::int32_t>{3}, {}),
            "ef18adf5bb603b5dbb317651b497500c10dcd0115ca75fc0ab1bb6ac3ddba3e1");
}

TEST(DatasetKey, depends_on_name_version_and_every_sample) {
  Dataset data;
  data.name = "needle";
  data.version = "1";
  data.samples.resize(1);
  data.samples[0].key = "a";
  data.samples[0].input_sha256 = "h";
  std::set<std::string> keys = {data.key()};
  data.samples[0].input_sha256 = "i";
  keys.insert(data.key());
  data.samples[0].key = "b";
  keys.insert(data.key());
  data.version = "2";
  keys.insert(data.key());
  data.name = "qa";
  keys.insert(data.key());
  data.samples[0].golds = {"one"};
  keys.insert(data.key());
  data.samples[0].golds = {"one", "two"};
  keys.insert(data.key());
  data.samples[0].golds = {"onetwo"};
  keys.insert(data.key());
  data.samples[0].max_new_tokens = 16;
  keys.insert(data.key());
  data.samples[0].answer_cut = AnswerCut::kFirstLine;
  keys.insert(data.key());
  data.samples[0].cluster_key = "c";
  keys.insert(data.key());
  data.windows.resize(1);
  keys.insert(data.key());
  data.windows[0].cluster_key = "c";
  keys.insert(data.key());
  EXPECT_EQ(keys.size(), 13U);
  const Dataset same = data;
  EXPECT_EQ(same.key(), data.key());
}

TEST(Random, draws_the_same_numbers_everywhere) {
  Random random(1, "stream");
  const std::vector<std::size_t> drawn = {random.below(1000), random.below(1000),
                                          random.below(1000)};
  EXPECT_EQ(drawn, (std::vector<std::size_t>{494, 986, 222}));
  Random other(1, "another stream");
  EXPECT_NE(other.next(), Random(1, "stream").next());
}

TEST(Random, below_reaches_every_value_about_equally) {
  Random random(7, "dice");
  std::vector<int> counts(6, 0);
  for (int i = 0; i < 6000; ++i) ++counts[random.below(6)];
  // Binomial with mean 1000 and standard deviation 29; five of these, for a fixed seed.
  for (const int count : counts) EXPECT_NEAR(count, 1000, 145);
}

}  // namespace
}  // namespace kvscope
