// The vector of policies.md 1.6: turning a key to another position.
#include <gtest/gtest.h>

#include <cmath>

#include "runner/conform/vector_tools.h"

namespace kvscope::conform {
namespace {

constexpr double kFloat = 1e-6;  // keys in float32

TEST(FormulaVectors, a_key_turned_back_is_the_key_at_the_new_position) {
  const Json& vector = vector_named("rope-rerotate");
  const auto frequency = vector.at("params").at("inv_freq").get<std::vector<float>>();
  const int old_position = vector.at("input").at("pos_old");
  const int new_position = vector.at("input").at("pos_new");
  auto key = vector.at("input").at("k_prerope").get<std::vector<float>>();
  rotate_pairs(frequency, old_position, key);
  for (std::size_t j = 0; j < key.size(); ++j)
    EXPECT_NEAR(key[j], vector.at("expect").at("k_at_old")[j].get<double>(), kFloat);
  rotate_pairs(frequency, new_position - old_position, key);
  for (std::size_t j = 0; j < key.size(); ++j)
    EXPECT_NEAR(key[j], vector.at("expect").at("k_at_new")[j].get<double>(), kFloat);
}

}  // namespace
}  // namespace kvscope::conform
