#include "harness/report/paired_json.h"

#include <optional>

namespace kvscope {
namespace {

Json optional_number(const std::optional<double>& value) {
  return value ? json_number(*value) : Json(nullptr);
}

Json interval_json(const Interval& interval) {
  return Json::array({json_number(interval.low), json_number(interval.high)});
}

}  // namespace

Json paired_summary_json(const PairedSummary& summary) {
  const PairedT& paired = summary.paired;
  Json out;
  out["n"] = paired.n;
  out["clusters"] = paired.clusters;
  out["identical"] = paired.identical;
  out["nonfinite_pairs"] = summary.nonfinite_pairs;
  out["mean_difference"] = optional_number(paired.mean_difference);
  const auto& inference = paired.inference;
  const auto inferred = [&](auto member) {
    return inference ? json_number((*inference).*member) : Json(nullptr);
  };
  out["se_clustered"] = inferred(&PairedInference::se_clustered);
  out["df"] = inference ? Json(inference->df) : Json(nullptr);
  out["t"] = inference ? optional_number(inference->t) : Json(nullptr);
  out["p_two_sided"] = inferred(&PairedInference::p_two_sided);
  out["p_less"] = inferred(&PairedInference::p_less);
  out["p_greater"] = inferred(&PairedInference::p_greater);
  out["ci95"] = inference ? interval_json(inference->ci95) : Json(nullptr);
  out["lower_one_sided_95"] = inferred(&PairedInference::lower_one_sided_95);
  out["upper_one_sided_95"] = inferred(&PairedInference::upper_one_sided_95);
  out["p_noninferior"] = inference ? optional_number(inference->p_noninferior) : Json(nullptr);
  out["se_unclustered_paired"] = optional_number(paired.se_unclustered_paired);
  out["mde_one_sided_05_power_80"] = optional_number(summary.mde_one_sided_05_power_80);
  if (const auto& welch = summary.welch_unpaired) {
    out["welch_unpaired"] = {{"t", json_number(welch->t)},
                             {"p_two_sided", json_number(welch->p_two_sided)},
                             {"df", json_number(welch->df)}};
  } else {
    out["welch_unpaired"] = nullptr;
  }
  if (const auto& flip = summary.sign_flip_exact) {
    out["sign_flip_exact"] = {{"p_less", flip->p_less}, {"p_two_sided", flip->p_two_sided}};
  }
  if (const auto& mcnemar = summary.mcnemar_exact) {
    out["mcnemar_exact"] = {{"gained", mcnemar->gained},
                            {"lost", mcnemar->lost},
                            {"p_two_sided", mcnemar->p_two_sided},
                            {"p_less", mcnemar->p_less}};
  }
  if (summary.wilson95_a) out["wilson95_a"] = interval_json(*summary.wilson95_a);
  if (summary.wilson95_b) out["wilson95_b"] = interval_json(*summary.wilson95_b);
  return out;
}

}  // namespace kvscope
