#include "runner/policies/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/policies/nearest.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

using ::testing::HasSubstr;

template <class Call>
std::string usage_error(Call call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no UsageError";
}

std::string canonical(std::string_view text) { return parse_policy(text).canonical; }

TEST(ParsePolicy, fills_in_the_defaults_of_every_policy) {
  const PolicySpec h2o = parse_policy("h2o");
  EXPECT_EQ(h2o.params.at("norm"), "sum");
  EXPECT_EQ(h2o.params.at("recent"), "auto");
  EXPECT_EQ(h2o.decode, DecodeMode::kSelf);
  EXPECT_EQ(h2o.positions, PositionMode::kAbsolute);
  EXPECT_EQ(h2o.prefill, PrefillMode::kMonolithic);
  EXPECT_EQ(h2o.chunk, 1);
  EXPECT_TRUE(h2o.protect_last);
  EXPECT_TRUE(h2o.written.empty());
  EXPECT_TRUE(h2o.acts_in_stream());

  const PolicySpec streaming = parse_policy("streaming_llm");
  EXPECT_EQ(streaming.positions, PositionMode::kCacheRelative);
  EXPECT_EQ(streaming.params.at("sinks"), "auto");

  const PolicySpec snapkv = parse_policy("snapkv");
  EXPECT_EQ(snapkv.decode, DecodeMode::kGrow);
  EXPECT_FALSE(snapkv.acts_in_stream());
  EXPECT_EQ(snapkv.params.at("window"), "auto");
  EXPECT_EQ(snapkv.params.at("kernel"), "5");
  EXPECT_EQ(snapkv.params.at("pool"), "avg");
  EXPECT_EQ(snapkv.params.at("gqa"), "mean");
  EXPECT_EQ(snapkv.params.at("order"), "agg_pool");
  EXPECT_EQ(snapkv.params.at("pool_edge"), "zero");

  const PolicySpec random = parse_policy("random");
  EXPECT_EQ(random.params.at("seed"), "0");
  EXPECT_EQ(random.params.at("mode"), "reservoir");
  EXPECT_EQ(parse_policy("tova").params.at("scope"), "layer");
  EXPECT_TRUE(parse_policy("full").is_full());
}

TEST(ParsePolicy, reads_the_common_parameters) {
  const PolicySpec spec = parse_policy(
      "h2o:norm=mean:recent=0:decode=grow:protect_last=false:positions=rerotate:prefill=two_pass");
  EXPECT_EQ(spec.params.at("recent"), "0");
  EXPECT_EQ(spec.decode, DecodeMode::kGrow);
  EXPECT_FALSE(spec.protect_last);
  EXPECT_EQ(spec.positions, PositionMode::kRerotate);
  EXPECT_EQ(spec.prefill, PrefillMode::kTwoPass);
  EXPECT_FALSE(spec.acts_in_stream());
  EXPECT_EQ(parse_policy("h2o:prefill=streaming:chunk=16").chunk, 16);
  EXPECT_EQ(parse_policy("random:seed=18446744073709551615").params.at("seed"),
            "18446744073709551615");
}

TEST(ParsePolicy, canonical_text_holds_what_differs_from_the_defaults_in_registry_order) {
  EXPECT_EQ(canonical("h2o"), "h2o");
  EXPECT_EQ(canonical(" h2o:norm=sum "), "h2o");  // blanks around are no error
  EXPECT_EQ(canonical("h2o:decode=self:chunk=1:prefill=streaming"), "h2o:prefill=streaming");
  EXPECT_EQ(canonical("h2o:recent=032:norm=mean"), "h2o:norm=mean:recent=32");
  EXPECT_EQ(canonical("h2o:lambda=0.50:norm=decay"), "h2o:norm=decay:lambda=0.5");
  EXPECT_EQ(canonical("streaming_llm:positions=cache_relative"), "streaming_llm");
  EXPECT_EQ(canonical("streaming_llm:positions=absolute"), "streaming_llm:positions=absolute");
  EXPECT_EQ(canonical("snapkv:decode=grow:kernel=5"), "snapkv");
  EXPECT_EQ(canonical("snapkv:decode=tova:pool=max"), "snapkv:pool=max:decode=tova");
  EXPECT_EQ(canonical("h2o:recent=auto"), "h2o");
  // A written value is an order and does not shrink, so it stays even where it equals what "auto"
  // starts from.
  EXPECT_EQ(canonical("streaming_llm:sinks=4"), "streaming_llm:sinks=4");
  EXPECT_EQ(canonical("snapkv:window=32"), "snapkv:window=32");
}

TEST(ParsePolicy, accepts_every_form_that_the_reference_checks_use) {
  for (const char* text :
       {"full", "snapkv:window=32:kernel=5:pool=avg:decode=grow",
        "streaming_llm:sinks=4:positions=absolute:decode=grow", "tova:decode=grow",
        "h2o:norm=mean:recent=0:decode=grow:protect_last=false", "sliding_window",
        "streaming_llm:sinks=0:positions=cache_relative", "random:seed=7",
        "h2o:norm=sum:recent=32"}) {
    const std::string once = canonical(text);
    EXPECT_EQ(canonical(once), once) << text;
  }
}

struct BadPolicy {
  const char* text;
  const char* message;
};

TEST(ParsePolicy, every_bad_text_has_its_message) {
  const BadPolicy cases[] = {
      {"", "policy \"\": a policy's name is missing; write NAME[:key=value…], e.g. h2o:norm=mean"},
      {":norm=sum", "name is missing"},
      {"h20", "unknown policy \"h20\"; did you mean \"h2o\"? (known: full, sliding_window, "},
      {"snap_kv", "did you mean \"snapkv\"?"},
      {"window", "unknown policy \"window\""},
      {"zzzzzzzz", "policy \"zzzzzzzz\": unknown policy \"zzzzzzzz\" (known: full, "},
      {"page", "\"page\" is no policy of its own but a part that follows one after \"+\""},
      {"h2o:recnt=4", "h2o has no parameter \"recnt\"; did you mean \"recent\"? (known: norm, "},
      {"h2o:heavy=4", "h2o has no parameter \"heavy\""},
      {"tova:window=4", "tova has no parameter \"window\""},
      {"h2o:norm", "\"norm\" is not of the form key=value"},
      {"h2o:=4", "\"=4\" is not of the form key=value"},
      {"h2o:", "\"\" is not of the form key=value"},
      {"h2o:norm=", "norm= is not allowed; norm takes sum|mean|decay"},
      {"h2o:norm=men",
       "norm=men is not allowed; norm takes sum|mean|decay; did you mean \"mean\"?"},
      {"h2o:recent=-1", "recent=-1 is not allowed; recent takes 0…"},
      {"h2o:recent=1.5", "recent=1.5 is not allowed"},
      {"h2o:recent=99999999999", "recent=99999999999 is not allowed"},
      {"h2o:norm=mean:norm=sum", "norm is given twice; give it once"},
      {"h2o:norm=decay:lambda=nan", "lambda=nan is not allowed; lambda takes float 0…1"},
      {"h2o:norm=decay:lambda=1.01", "lambda=1.01 is not allowed"},
      {"h2o:lambda=0.5", "lambda has no effect without norm=decay; write both or neither"},
      {"snapkv:kernel=4", "kernel=4 is not allowed; kernel takes odd 1…"},
      {"snapkv:window=0", "window=0 is not allowed; window takes 1…"},
      {"snapkv:pool=max:pool_edge=valid", "pool_edge has no effect without pool=avg"},
      {"snapkv:decode=self",
       "snapkv acts at the prompt's end only and has no rule for decoding; "
       "use decode=grow, window, tova or h2o"},
      {"cake:prefill=streaming",
       "nothing to do during a streaming prefill; use "
       "prefill=monolithic or two_pass"},
      {"random:seed=-1", "seed=-1 is not allowed"},
      {"random:seed=18446744073709551616", "is not allowed"},
      {"tova:scope=heads", "scope takes layer|head; did you mean \"head\"?"},
      {"h2o:protect_last=no", "protect_last=no is not allowed; protect_last takes true|false"},
      {"h2o:prefill=in_stream", "prefill takes monolithic|streaming|two_pass"},
      {"h2o:positions=relative", "positions takes absolute|cache_relative|rerotate"},
      {"h2o:chunk=4", "chunk has no effect without prefill=streaming; write both or neither"},
      {"h2o:prefill=streaming:chunk=0", "chunk=0 is not allowed; chunk takes 1…"},
      {"full:decode=window", "full never evicts, so decode=window means nothing; leave it out"},
      {"h2o:every=0", "every=0 is not allowed; every takes 1…"},
      {"snapkv:every=2", "every=2 means nothing with decode=grow, which never selects again"},
      {"h2o+kivi:bits=2",
       "kivi's key groups span tokens, so no token can leave after it was quantised; use "
       "decode=grow with prefill=monolithic, or kv_int8"},
      {"full+kivi:residual=33", "kivi's residual must be a multiple of its group"},
      {"full+page", "full never evicts, so there is no budget to share out and no page to drop"},
      {"quest+adakv", "quest never evicts, so there is no budget to share out"},
      {"snapkv+page", "pages leave under the score's own rule; use decode=self or leave +page out"},
      {"paged_eviction+page", "paged_eviction has pages of its own (block=…); leave +page out"},
      {"tova+adakv", "tova keeps one set for all heads of a layer"},
      {"h2o:prefill=streaming+adakv", "budgets by scores of a whole prompt"},
      {"snapkv+pyramid+cake", "\"cake\" and \"pyramid\" decide the same thing; give one of them"},
      {"snapkv+pyramid+pyramid", "part \"pyramid\" is given twice; give it once"},
      {"h2o+page:sise=4", "page has no parameter \"sise\"; did you mean \"size\"?"},
      {"snapkv+pyramd", "unknown part \"pyramd\" after \"+\"; did you mean \"pyramid\"?"},
      {"snapkv+", "unknown part \"\" after \"+\""},
  };
  for (const auto& [text, message] : cases) {
    const std::string error = usage_error([&] { parse_policy(text); });
    EXPECT_THAT(error, HasSubstr(message)) << text;
    EXPECT_THAT(error, ::testing::Not(HasSubstr("\n"))) << text;
    EXPECT_THAT(error, HasSubstr(std::string("policy \"") + text + "\"")) << text;
  }
}

TEST(ParsePolicy, knows_every_part_of_the_grammar) {
  for (const char* part : {"pyramid", "adakv", "cake", "kivi", "kv_int8", "kv_fp8", "minference"}) {
    EXPECT_EQ(canonical("snapkv+" + std::string(part)), "snapkv+" + std::string(part));
  }
  EXPECT_EQ(canonical("h2o+page:size=8"), "h2o+page:size=8");
  EXPECT_EQ(canonical("snapkv+kv_int8+adakv+pyramid"), "snapkv+pyramid+adakv+kv_int8");
  EXPECT_EQ(parse_policy("cake").implied_part, "cake");
  EXPECT_EQ(parse_policy("cake+pyramid").implied_part, "");
}

TEST(ParsePolicy, a_part_can_stand_for_its_score) {
  EXPECT_EQ(canonical("adakv"), "snapkv+adakv");
  EXPECT_EQ(canonical("pyramid"), "snapkv+pyramid");
  EXPECT_EQ(canonical("pyramidkv"), "snapkv+pyramid");
  EXPECT_EQ(canonical("adakv:alpha=0.5:window=16"), "snapkv:window=16+adakv:alpha=0.5");
}

TEST(ParsePolicy, acts_in_stream_where_nothing_needs_a_whole_prompt) {
  for (const char* text : {"h2o", "lru", "knorm", "paged_eviction", "h2o+page", "h2o+pyramid"})
    EXPECT_TRUE(parse_policy(text).acts_in_stream()) << text;
  for (const char* text :
       {"cake", "snapkv", "h2o+adakv", "h2o+cake", "h2o:decode=window", "full+minference"})
    EXPECT_FALSE(parse_policy(text).acts_in_stream()) << text;
}

TEST(ParsePolicyList, splits_at_commas_and_refuses_duplicates) {
  const auto specs = parse_policy_list("full, h2o:norm=mean,streaming_llm:sinks=0");
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[1].canonical, "h2o:norm=mean");
  EXPECT_EQ(specs[2].canonical, "streaming_llm:sinks=0");
  EXPECT_THAT(usage_error([] { parse_policy_list("h2o,tova,h2o:norm=sum"); }),
              HasSubstr("h2o is listed twice; list each policy once"));
  EXPECT_THAT(usage_error([] { parse_policy_list("h2o,,tova"); }), HasSubstr("name is missing"));
}

TEST(Registry, has_fifteen_policies_each_with_all_that_a_reader_needs) {
  ASSERT_EQ(policies().size(), 15U);
  for (const PolicyInfo& info : policies()) {
    EXPECT_EQ(find_policy(info.name), &info);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_FALSE(info.paper.empty());
    EXPECT_TRUE(info.source.starts_with("runner/policies/"));
    EXPECT_NE(info.make, nullptr);
    for (const ParamInfo& param : info.params) {
      for (const ParamInfo& common : common_params()) EXPECT_NE(param.name, common.name);
    }
  }
  EXPECT_EQ(find_policy("pyramid"), nullptr);  // a part
}

TEST(Nearest, distance_counts_edits_and_far_words_suggest_nothing) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("tova", "tova"), 0);
  const std::string_view known[] = {"tova", "h2o"};
  EXPECT_EQ(nearest_name("toba", known), "tova");
  EXPECT_EQ(nearest_name("xyzzy", known), "");
}

}  // namespace
}  // namespace kvscope
