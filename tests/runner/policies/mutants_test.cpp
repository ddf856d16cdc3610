// Planted defects: the vectors, properties and relations catch every one of them.
#include "runner/conform/mutants.h"

#include <gtest/gtest.h>

#include <iostream>
#include <set>

namespace kvscope::conform {
namespace {

TEST(Mutants, are_forty_or_more_each_with_a_name_and_a_source) {
  std::set<std::string_view> names;
  for (const Mutant& mutant : mutants()) {
    EXPECT_TRUE(names.insert(mutant.name).second) << mutant.name;
    EXPECT_FALSE(mutant.source.empty()) << mutant.name;
    EXPECT_NE(find_policy(mutant.policy), nullptr) << mutant.policy;
  }
  EXPECT_GE(names.size(), 40U);
}

TEST(Mutants, are_all_caught) {
  for (const Mutant& mutant : mutants()) {
    const MutantResult result = run_mutant(mutant, {100});
    EXPECT_NE(result.caught_by, "") << mutant.policy << ": " << mutant.name;
    std::cout << mutant.policy << ": " << mutant.name << " <- " << result.caught_by << '\n';
  }
}

// The alarm is not always on.
TEST(Mutants, are_not_caught_where_nothing_is_planted) {
  for (const PolicyInfo& info : policies()) EXPECT_EQ(first_failure(info, {100}, fit_policy), "");
}

}  // namespace
}  // namespace kvscope::conform
