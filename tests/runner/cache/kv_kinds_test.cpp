#include "runner/cache/kv_kinds.h"

#include <gtest/gtest.h>

#include "tests/runner/engine/tiny_engine.h"

namespace kvscope {
namespace {

using namespace kvscope::testing;

struct Sums {
  std::int64_t stored_logical = 0, stored_physical = 0, metadata = 0;
};

Sums sums_of(const KvBytesByKind& kinds) {
  Sums sums;
  for (const auto& [kind, bytes] : named_kinds(kinds)) {
    const bool stored = kind == "keys" || kind == "values" || kind == "scales";
    if (stored) {
      sums.stored_logical += bytes.logical_bytes;
      sums.stored_physical += bytes.physical_bytes;
    } else {
      sums.metadata += bytes.physical_bytes;
    }
    EXPECT_GE(bytes.logical_bytes, 0) << kind;
    EXPECT_LE(bytes.logical_bytes, bytes.physical_bytes) << kind;
  }
  return sums;
}

TEST(KvKinds, AddUpToTheLedgerForEveryPolicy) {
  TinyEngine tiny(gqa_shape());
  const auto ids = random_ids(130);
  std::vector<ScoreArm> arms;
  std::vector<std::string> texts = prompt_policies();
  for (const std::string& text : texts) {
    const bool in_stream = parse_policy(text).acts_in_stream();
    arms.push_back({fit(text, 37, in_stream ? 130 : 90, in_stream), nullptr, in_stream});
  }
  ScoreRequest request;
  request.tokens = ids;
  request.prompt_tokens = 90;
  const auto results = tiny.engine.score(request, arms).value();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    ASSERT_EQ(results[i].error, "") << texts[i];
    const Ledger& ledger = results[i].ledger;
    const Sums sums = sums_of(ledger.by_kind);
    EXPECT_EQ(sums.stored_logical, ledger.steady.logical_bytes) << texts[i];
    EXPECT_EQ(sums.stored_physical, ledger.steady.physical_bytes) << texts[i];
    EXPECT_EQ(sums.metadata, ledger.steady.metadata_bytes) << texts[i];
    const double occupancy = ledger.by_kind.page_occupancy().value_or(1.0);
    EXPECT_GT(occupancy, 0) << texts[i];
    EXPECT_LE(occupancy, 1) << texts[i];
  }
}

TEST(KvKinds, OfAnAnswerAreThoseOfItsFreeRow) {
  TinyEngine tiny(gqa_shape());
  const auto prompt = random_ids(90);
  GenerateRequest request;
  request.prompt = prompt;
  request.max_new_tokens = 12;
  for (const char* text : {"full", "h2o", "snapkv+kv_int8", "full+kivi:group=8:residual=8"}) {
    request.arms.push_back({fit(text, 20, 89, false)});
  }
  const auto results = tiny.engine.generate({&request, 1}).value().front();
  for (const GenerateArmResult& result : results) {
    const Sums sums = sums_of(result.ledger.by_kind);
    EXPECT_EQ(sums.stored_logical, result.ledger.steady.logical_bytes);
    EXPECT_EQ(sums.stored_physical, result.ledger.steady.physical_bytes);
    EXPECT_EQ(sums.metadata, result.ledger.steady.metadata_bytes);
  }
  EXPECT_EQ(results[0].ledger.by_kind.scales.physical_bytes, 0);
  EXPECT_GT(results[2].ledger.by_kind.scales.physical_bytes, 0);
  EXPECT_GT(results[3].ledger.by_kind.scales.physical_bytes, 0);
}

}  // namespace
}  // namespace kvscope
