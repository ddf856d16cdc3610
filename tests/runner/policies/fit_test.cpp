#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runner/policies/random_cases.h"

namespace kvscope::testing {
namespace {

using ::testing::HasSubstr;

std::string param(const std::string& text, int budget_tokens, int length, const char* name) {
  return fitted(text, budget_tokens, length)->fitted_params().at(name);
}

template <class Error>
std::string message_of(const std::string& text, const FitRequest& request) {
  try {
    fit_policy(parse_policy(text), request);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

FitRequest tokens(int budget_tokens, int length) {
  FitRequest request;
  request.budget.tokens = budget_tokens;
  request.length = length;
  return request;
}

FitRequest ratio(int permille, int length) {
  FitRequest request;
  request.budget.permille = permille;
  request.length = length;
  return request;
}

TEST(Fit, unwritten_parameters_shrink_with_the_budget_and_are_recorded) {
  EXPECT_EQ(param("h2o", 64, 640, "recent"), "32");
  EXPECT_EQ(param("h2o", 7, 640, "recent"), "3");
  EXPECT_EQ(param("h2o", 1, 640, "recent"), "0");
  EXPECT_EQ(param("streaming_llm", 64, 640, "sinks"), "4");
  EXPECT_EQ(param("streaming_llm", 4, 640, "sinks"), "3");
  EXPECT_EQ(param("streaming_llm", 1, 640, "sinks"), "0");
  EXPECT_EQ(param("snapkv", 200, 640, "window"), "32");
  EXPECT_EQ(param("snapkv", 40, 640, "window"), "20");
  EXPECT_EQ(param("snapkv", 1, 640, "window"), "1");
  EXPECT_EQ(param("snapkv", 200, 20, "window"), "19");
  EXPECT_EQ(param("snapkv", 200, 1, "window"), "0");
}

TEST(Fit, written_parameters_are_taken_or_refused) {
  EXPECT_EQ(param("h2o:recent=64", 64, 640, "recent"), "64");
  EXPECT_EQ(param("streaming_llm:sinks=63", 64, 640, "sinks"), "63");
  EXPECT_EQ(param("snapkv:window=64", 64, 640, "window"), "64");
  EXPECT_EQ(message_of<DoesNotFit>("h2o:recent=65", tokens(64, 640)),
            "policy \"h2o:recent=65\": recent=65 does not fit, it may be at most 64 (the budget); "
            "write less, "
            "give a larger budget or leave recent out");
  EXPECT_THAT(message_of<DoesNotFit>("streaming_llm:sinks=4", tokens(4, 640)),
              HasSubstr("sinks=4 does not fit, it may be at most 3 (the budget less one token)"));
  EXPECT_THAT(message_of<DoesNotFit>("snapkv:window=32", tokens(31, 640)),
              HasSubstr("window=32 does not fit, it may be at most 31"));
  EXPECT_THAT(
      message_of<DoesNotFit>("snapkv:window=32", tokens(64, 32)),
      HasSubstr(
          "window=32 does not fit, it may be at most 31 (the budget, and less than the prompt)"));
  // Nothing has to fit where nothing is evicted.
  EXPECT_NO_THROW(fit_policy(parse_policy("snapkv:window=32"), ratio(1000, 16)));
}

TEST(Fit, the_budget_is_of_the_prompt_and_full_needs_none) {
  EXPECT_EQ(fit_policy(parse_policy("h2o"), ratio(200, 699))->budget_tokens(), 139);
  EXPECT_FALSE(fit_policy(parse_policy("h2o"), ratio(999, 10))->never_evicts());
  EXPECT_TRUE(fit_policy(parse_policy("h2o"), ratio(1000, 10))->never_evicts());
  FitRequest none;
  none.length = 100;
  const auto full = fit_policy(parse_policy("full"), none);
  EXPECT_TRUE(full->never_evicts());
  EXPECT_EQ(full->budget_tokens(), 100);
  EXPECT_EQ(full->scan_rule(), std::nullopt);
  EXPECT_TRUE(fit_policy(parse_policy("full"), tokens(4, 100))->never_evicts());
}

TEST(Fit, refuses_requests_that_mean_nothing) {
  FitRequest none;
  none.length = 10;
  EXPECT_THAT(message_of<UsageError>("h2o", none), HasSubstr("needs a budget"));
  EXPECT_THAT(message_of<UsageError>("h2o", tokens(0, 10)), HasSubstr("give at least 1"));
  EXPECT_THAT(message_of<UsageError>("h2o", ratio(0, 10)), HasSubstr("give 1 to 1000"));
  EXPECT_THAT(message_of<UsageError>("h2o", ratio(1001, 10)), HasSubstr("give 1 to 1000"));
  EXPECT_THAT(message_of<UsageError>("h2o", tokens(4, 0)), HasSubstr("give at least one token"));
  for (const char* text : {"snapkv", "h2o:decode=grow", "tova:decode=window"}) {
    FitRequest in_stream = tokens(4, 10);
    in_stream.in_stream = true;
    EXPECT_THAT(message_of<UsageError>(text, in_stream),
                HasSubstr("acts at the end of a prompt only; say how long the prompt is"));
  }
}

TEST(Fit, common_parts_follow_the_text) {
  const auto policy = fitted("tova:positions=rerotate:prefill=streaming:chunk=8", 4, 10);
  EXPECT_EQ(policy->positions(), PositionMode::kRerotate);
  EXPECT_EQ(policy->prefill(), PrefillMode::kStreaming);
  EXPECT_EQ(policy->chunk(), 8);
  EXPECT_TRUE(policy->acts_in_stream());
  EXPECT_EQ(fitted("tova", 4, 10, true)->prefill(), PrefillMode::kInStream);
  EXPECT_FALSE(fitted("snapkv", 4, 10)->acts_in_stream());
}

TEST(Fit, the_second_rule_holds_the_same_budget) {
  EXPECT_EQ(fitted("snapkv", 8, 20)->scan_rule(), std::nullopt);
  EXPECT_EQ(fitted("h2o:decode=grow", 8, 20)->make_state({0, 0}, {}), nullptr);

  const ScanRule window = *fitted("snapkv:decode=window", 8, 20)->scan_rule();
  EXPECT_EQ(window, (ScanRule{.budget_tokens = 8}));
  const ScanRule h2o = *fitted("snapkv:decode=h2o:protect_last=false", 8, 20)->scan_rule();
  EXPECT_EQ(h2o, (ScanRule{.statistic = ScanRule::Statistic::kSum,
                           .victim = ScanRule::Victim::kLowest,
                           .budget_tokens = 8,
                           .recent = 4,
                           .half_is_recent = true,
                           .protect_last = false}));
  // One set a layer can go on as one; sets that differ between heads cannot.
  const auto shared = fitted("streaming_llm:decode=tova", 8, 20);
  EXPECT_EQ(shared->scan_rule()->scope, ScanRule::Scope::kLayer);
  EXPECT_EQ(shared->fitted_params().at("decode_scope"), "layer");
  const auto apart = fitted("snapkv:decode=tova", 8, 20);
  EXPECT_EQ(apart->scan_rule()->scope, ScanRule::Scope::kHead);
  EXPECT_EQ(apart->fitted_params().at("decode_scope"), "head");
}

TEST(Fit, a_streamed_prompt_runs_under_the_policys_own_rule) {
  const auto policy = fitted("h2o:prefill=streaming:decode=window", 8, 20);
  EXPECT_EQ(policy->streaming_rule()->statistic, ScanRule::Statistic::kSum);
  EXPECT_EQ(policy->scan_rule()->statistic, ScanRule::Statistic::kNone);
  EXPECT_EQ(fitted("h2o", 8, 20)->streaming_rule(), fitted("h2o", 8, 20)->scan_rule());
}

TEST(Fit, needs_only_the_attention_that_its_scores_use) {
  const auto need = [](const char* text) { return fitted(text, 8, 20)->prompt_need(); };
  EXPECT_EQ(need("sliding_window"), PromptNeed{});
  EXPECT_EQ(need("random"), PromptNeed{});
  EXPECT_EQ(need("h2o"), (PromptNeed{.rows = PromptNeed::Rows::kAll}));
  EXPECT_EQ(need("h2o:norm=mean"), (PromptNeed{.rows = PromptNeed::Rows::kAll}));
  EXPECT_EQ(need("h2o:norm=decay:lambda=0.5"),
            (PromptNeed{.rows = PromptNeed::Rows::kAll, .decay = 0.5F}));
  EXPECT_EQ(need("tova"), (PromptNeed{.rows = PromptNeed::Rows::kLast, .last_rows = 1}));
  EXPECT_EQ(need("snapkv:window=3"),
            (PromptNeed{.rows = PromptNeed::Rows::kLast, .last_rows = 3, .mean = true}));
  EXPECT_EQ(need("h2o:prefill=streaming"), PromptNeed{});
}

TEST(Fit, statistics_start_the_rule_and_foreign_ones_do_not) {
  const std::vector<float> weights = {4.0F, 1.0F, 0.5F, 3.0F};
  const PromptLayer layer{
      .n_layers = 1, .n_heads = 1, .n_kv_heads = 1, .prompt_tokens = 4, .column_weights = weights};
  const KeptHead own = fitted("h2o:norm=mean:recent=1", 2, 4)->select_prompt(layer)[0];
  EXPECT_EQ(own.positions, (Positions{0, 3}));
  EXPECT_EQ(own.statistic, (std::vector<float>{4.0F, 3.0F}));
  EXPECT_EQ(own.count, (std::vector<std::uint32_t>{4, 1}));
  const KeptHead taken_over = fitted("h2o:recent=1:decode=h2o", 2, 4)->select_prompt(layer)[0];
  EXPECT_EQ(taken_over.statistic, (std::vector<float>{0.0F, 0.0F}));
  EXPECT_TRUE(taken_over.count.empty());
  const KeptHead grown = fitted("h2o:recent=1:decode=grow", 2, 4)->select_prompt(layer)[0];
  EXPECT_TRUE(grown.statistic.empty());
}

TEST(Fit, observed_attention_is_a_mean_and_protects_nothing) {
  const auto kept = [](const std::vector<float>& weights, const std::string& more) {
    const PromptLayer layer{.n_layers = 1,
                            .n_heads = 1,
                            .n_kv_heads = 1,
                            .prompt_tokens = 4,
                            .column_weights = weights};
    return fitted("h2o:recent=0:decode=grow" + more, 2, 4)->select_prompt(layer)[0].positions;
  };
  const std::string free = ":protect_last=false";
  // Means 0.4, 0.3, 0.1, 0.6: rows that saw the token count, not those of the prompt.
  EXPECT_EQ(kept({1.6F, 0.9F, 0.2F, 0.6F}, free + ":norm=mean"), (Positions{0, 3}));
  EXPECT_EQ(kept({1.6F, 0.9F, 0.2F, 0.6F}, free), (Positions{0, 1}));
  // Means 0.4, 0.9, 0.1, 0.2: the newest may leave.
  EXPECT_EQ(kept({1.6F, 2.7F, 0.2F, 0.2F}, free + ":norm=mean"), (Positions{0, 1}));
  EXPECT_EQ(kept({1.6F, 2.7F, 0.2F, 0.2F}, ":norm=mean"), (Positions{1, 3}));
}

TEST(Fit, tova_keeps_one_set_a_layer_or_one_a_head) {
  const std::vector<float> weights = {0.5F, 0.1F, 0.3F, 0.1F, 0.1F, 0.5F, 0.2F, 0.2F};
  const PromptLayer layer{
      .n_layers = 1, .n_heads = 2, .n_kv_heads = 2, .prompt_tokens = 4, .column_weights = weights};
  const auto shared = fitted("tova", 2, 4);
  EXPECT_EQ(shared->scan_rule()->scope, ScanRule::Scope::kLayer);
  // Means 0.3, 0.3, 0.25: the tie goes to the newer.
  for (const KeptHead& head : shared->select_prompt(layer)) {
    EXPECT_EQ(head.positions, (Positions{1, 3}));
  }
  const auto apart = fitted("tova:scope=head", 2, 4);
  EXPECT_EQ(apart->scan_rule()->scope, ScanRule::Scope::kHead);
  EXPECT_EQ(apart->select_prompt(layer)[0].positions, (Positions{0, 3}));
  EXPECT_EQ(apart->select_prompt(layer)[1].positions, (Positions{1, 3}));
}

}  // namespace
}  // namespace kvscope::testing
