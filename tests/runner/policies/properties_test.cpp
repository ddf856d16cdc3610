// policies.md §9 for all registered policies and their variants, 1,000 cases of each item and
// shape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/conform/conformance.h"
#include "runner/conform/properties.h"

namespace kvscope::conform {
namespace {

constexpr int kCases = 1000;

class EveryPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, keeps_every_property_in_every_shape) {
  const Conformance result = check(*find_policy(GetParam()), {kCases});
  EXPECT_GE(result.properties.size(), 5U);
  for (const PropertyResult& property : result.properties) {
    EXPECT_EQ(property.failure, "")
        << property.name << ": " << property.text << ", " << name_of(property.shape) << " seed "
        << property.seed << (property.in_stream ? " in stream" : "");
    if (property.failure.empty()) {
      EXPECT_EQ(property.cases, 3 * kCases) << property.name;
    }
  }
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.emplace_back(info.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(registry, EveryPolicy, ::testing::ValuesIn(policy_names()),
                         [](const auto& info) { return info.param; });

TEST(Variants, cover_parameters_parts_and_prefill_modes) {
  std::vector<std::string> texts;
  for (const PolicyInfo& info : policies()) {
    const auto variants = variants_of(info);
    EXPECT_EQ(variants.front(), info.name);
    texts.insert(texts.end(), variants.begin(), variants.end());
  }
  EXPECT_GE(texts.size(), 200U);
  for (const char* text :
       {"h2o:norm=mean", "h2o:norm=decay", "h2o:heads=summed", "tova:scope=head", "snapkv:pool=max",
        "snapkv:decode=tova", "snapkv+pyramid", "snapkv+adakv", "h2o+cake", "h2o+page:size=2",
        "h2o:every=3", "random:protect_last=false", "lru:use=topk",
        "h2o:prefill=streaming:chunk=3"}) {
    EXPECT_THAT(texts, ::testing::Contains(std::string(text)));
  }
}

// A factory is all that a plug-in needs.
TEST(Conformance, checks_a_policy_of_which_only_the_making_is_known) {
  Subject subject;
  subject.text = "somebody's";
  subject.make = [](const FitRequest& request) {
    return fit_policy(parse_policy("sliding_window"), request);
  };
  const Conformance result = check(subject, {50});
  EXPECT_TRUE(result.conforms());
  EXPECT_TRUE(result.vectors.empty());
  EXPECT_GE(result.properties.size(), 8U);

  subject.make = [](FitRequest request) {
    if (request.budget.tokens) ++*request.budget.tokens;
    return fit_policy(parse_policy("sliding_window"), request);
  };
  EXPECT_FALSE(check(subject, {50}).conforms());
}

}  // namespace
}  // namespace kvscope::conform
