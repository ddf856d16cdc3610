#include "harness/gpu_check/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/gpu_check/check_model.h"
#include "tests/harness/gpu_check/perturbed_backend.h"

namespace kvscope {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Observed observed() {
  Observed o;
  o.nll_nats = {1.0, 2.0, 3.0};
  o.kl_nats = {0.0, 0.1, 0.2};
  o.kept = {{0, 1, 5, 6}, {2, 3, 5, 6}};
  o.rebound_mass = 0.25;
  o.hit_at_32 = 0.5;
  o.ledger.decode_peak = {100, 128, 8};
  o.ledger.bytes_by_row = {128, 128};
  return o;
}

constexpr AgreementLimits kTight{1e-3, 2e-3, 1e-3, 1.0, 1e-3, true};

TEST(Agreement, EqualRunsAgree) {
  const AgreementRow row = compare_observed(observed(), observed(), kTight);
  EXPECT_THAT(row.faults, IsEmpty());
  EXPECT_EQ(row.mean_nll_nats, 0.0);
  EXPECT_EQ(row.kept, 1.0);
  EXPECT_EQ(*row.probe, 0.0);
  EXPECT_TRUE(row.same_bytes);
}

TEST(Agreement, EachDifferenceHasAName) {
  const auto faults = [](const std::function<void(Observed&)>& change) {
    Observed other = observed();
    change(other);
    return compare_observed(observed(), other, kTight).faults;
  };
  EXPECT_THAT(faults([](Observed& o) { o.nll_nats[1] += 2.5e-3; }), ElementsAre("NLL of a token"));
  EXPECT_THAT(faults([](Observed& o) {
                for (double& nll : o.nll_nats) nll += 1.5e-3;
              }),
              ElementsAre("mean NLL"));
  EXPECT_THAT(faults([](Observed& o) { o.nll_nats[1] = std::nan(""); }),
              ElementsAre("mean NLL", "NLL of a token"));
  EXPECT_THAT(faults([](Observed& o) { o.nll_nats.pop_back(); }),
              ElementsAre("mean NLL", "NLL of a token"));
  EXPECT_THAT(faults([](Observed& o) { o.kl_nats[2] = 0.21; }), ElementsAre("KL of a token"));
  EXPECT_THAT(faults([](Observed& o) { o.kept[1][0] = 1; }), ElementsAre("kept tokens"));
  EXPECT_THAT(faults([](Observed& o) { o.kept[1].pop_back(); }), ElementsAre("kept tokens"));
  EXPECT_THAT(faults([](Observed& o) { o.kept.pop_back(); }), ElementsAre("kept tokens"));
  EXPECT_THAT(faults([](Observed& o) { o.hit_at_32 = 0.51; }), ElementsAre("probes"));
  EXPECT_THAT(faults([](Observed& o) { o.ledger.bytes_by_row[1] = 160; }), ElementsAre("bytes"));
  EXPECT_THAT(faults([](Observed& o) { o.ledger.decode_peak.metadata_bytes = 9; }),
              ElementsAre("bytes"));
  EXPECT_THAT(faults([](Observed& o) { o.answer = {4}; }), ElementsAre("answer"));
  EXPECT_THAT(faults([](Observed& o) { o.error = "a NaN"; }), ElementsAre("failed: a NaN"));
}

TEST(Agreement, KlIsComparedAsFarAsTheFullAnswersAgree) {
  Observed a = observed();
  a.full_answer = {7, 8, 9};
  Observed b = a;
  b.full_answer = {7, 4, 9};
  b.kl_nats = {0.0, 0.1, 5.0};  // the third distribution follows another token
  AgreementLimits limits = kTight;
  limits.same_answer = false;
  EXPECT_THAT(compare_observed(a, b, limits).faults, IsEmpty());
  b.kl_nats[1] = 5.0;  // the second still follows the same one
  EXPECT_THAT(compare_observed(a, b, limits).faults, ElementsAre("KL of a token"));
}

AgreementWork tiny(DType dtype) { return {tiny_shape(), dtype, 96, 96, 8}; }

TEST(Agreement, RoundingPassesAndMoreDoesNot) {
  const auto reference = make_cpu_backend(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    testing::PerturbedBackend rounded(1e-6, 1);
    for (const AgreementRow& row : compare_backends(tiny(dtype), *reference, rounded)) {
      EXPECT_THAT(row.faults, IsEmpty()) << name_of(dtype) << ' ' << row.work << ' ' << row.arm;
      EXPECT_GT(row.max_nll_nats, 0.0) << row.work << ' ' << row.arm;
    }
  }
  // A thousandth of every value: a lost term, not rounding.
  testing::PerturbedBackend wrong(1e-3, 1);
  for (const AgreementRow& row : compare_backends(tiny(DType::kF32), *reference, wrong)) {
    if (row.arm != "full") continue;
    EXPECT_THAT(row.faults, Contains("mean NLL")) << row.work;
  }
}

TEST(Agreement, ThreadsChangeNothing) {
  const auto one = make_cpu_backend(1);
  const auto two = make_cpu_backend(2);
  for (const AgreementRow& row : compare_backends(tiny(DType::kF32), *one, *two)) {
    EXPECT_EQ(row.max_nll_nats, 0.0) << row.work << ' ' << row.arm;
    EXPECT_EQ(row.answer_agrees, row.answer_tokens) << row.work << ' ' << row.arm;
  }
}

TEST(Agreement, TheTableNamesWhatDiffers) {
  AgreementRow row = compare_observed(observed(), observed(), kTight);
  row.model = "random";
  row.work = "score";
  row.arm = "h2o";
  row.faults = {"bytes", "probes"};
  EXPECT_NE(agreement_text({row}).find("DIFFERS: bytes, probes"), std::string::npos);
  EXPECT_EQ(agreement_json({row})[0]["faults"].dump(), R"(["bytes","probes"])");
}

}  // namespace
}  // namespace kvscope
