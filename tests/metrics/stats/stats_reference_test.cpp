// Every expected number of reference/stats.json (SciPy, statsmodels). 1e-9 relative to max(1,
// |value|), as its own check asks; largest difference measured: see the value printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "metrics/stats/multiplicity.h"
#include "metrics/stats/pairs_report.h"

namespace kvscope {
namespace {

using Json = nlohmann::json;

class StatsReference : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(KVSCOPE_SHARED_DIR "/reference/stats.json");
    if (!file) GTEST_SKIP() << "no " KVSCOPE_SHARED_DIR "/reference/stats.json";
    reference_ = Json::parse(file);
  }

  void expect_equal(const std::string& name, double value, double wanted) {
    const double difference = std::abs(value - wanted) / std::max(1.0, std::abs(wanted));
    worst_ = std::max(worst_, difference);
    ++compared_;
    EXPECT_LE(difference, 1e-9) << name << ": " << value << " for " << wanted;
  }

  Json reference_;
  double worst_ = 0;
  int compared_ = 0;
};

Json interval(const std::optional<Interval>& value) {
  return value ? Json{value->low, value->high} : Json();
}

// The keys of the reference from our names.
Json as_json(const PairedSummary& s) {
  const PairedInference& i = s.paired.inference.value();
  Json out = {{"n", s.paired.n},
              {"clusters", s.paired.clusters},
              {"mean_difference", s.paired.mean_difference.value()},
              {"se_clustered", i.se_clustered},
              {"df", i.df},
              {"t", i.t.value()},
              {"p_two_sided", i.p_two_sided},
              {"p_less", i.p_less},
              {"ci95", interval(i.ci95)},
              {"lower_one_sided_95", i.lower_one_sided_95},
              {"p_noninferior", i.p_noninferior.value()},
              {"se_unclustered_paired", s.paired.se_unclustered_paired.value()},
              {"mde_one_sided_05_power_80", s.mde_one_sided_05_power_80.value()},
              {"welch_unpaired",
               {{"t", s.welch_unpaired->t},
                {"p_two_sided", s.welch_unpaired->p_two_sided},
                {"df", s.welch_unpaired->df}}}};
  if (s.sign_flip_exact) {
    out["sign_flip_exact"] = {{"p_less", s.sign_flip_exact->p_less},
                              {"p_two_sided", s.sign_flip_exact->p_two_sided}};
  }
  if (s.mcnemar_exact) {
    out["mcnemar_exact"] = {{"gained", s.mcnemar_exact->gained},
                            {"lost", s.mcnemar_exact->lost},
                            {"p_two_sided", s.mcnemar_exact->p_two_sided},
                            {"p_less", s.mcnemar_exact->p_less}};
    out["wilson95_a"] = interval(s.wilson95_a);
    out["wilson95_b"] = interval(s.wilson95_b);
  }
  return out;
}

TEST_F(StatsReference, EveryExpectedNumberOfEveryDataSetIsMet) {
  for (const Json& data : reference_["datasets"]) {
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < data["a"].size(); ++i) {
      pairs.push_back({data["cluster"][i], data["a"][i], data["b"][i]});
    }
    const Json got = as_json(summarise_pairs(pairs, data["margin"].get<double>())).flatten();
    const Json wanted = data["expect"].flatten();
    EXPECT_EQ(got.size(), wanted.size());
    for (const auto& [key, value] : wanted.items()) {
      ASSERT_TRUE(got.contains(key)) << key;
      expect_equal(key, got[key], value);
    }
  }
  EXPECT_GT(compared_, 100);
}

TEST_F(StatsReference, AdjustedPValuesAreMet) {
  for (const Json& family : reference_["multiplicity"]) {
    const auto p = family["p"].get<std::vector<double>>();
    const std::vector<double> holm = holm_adjusted(p);
    const std::vector<double> bh = benjamini_hochberg_adjusted(p);
    for (std::size_t i = 0; i < p.size(); ++i) {
      expect_equal("holm", holm[i], family["holm"][i]);
      expect_equal("bh", bh[i], family["bh"][i]);
    }
  }
  EXPECT_EQ(compared_, 62);
}

}  // namespace
}  // namespace kvscope
