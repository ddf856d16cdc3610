// Ada-KV: heads share their layer's budget by score (Feng et al., 2024, arXiv:2407.11550).
//
//   each KV head keeps its own best floor(alpha·b); the other H·(b - floor(alpha·b)) places go to
//   the layer's highest remaining scores; the protected newest tokens come on top (b = B - w)
//
// Needs     : nothing; the score decides within a head.
// State     : none. Heads hold different numbers of tokens (ragged) and each really frees its own
// pages.
// Deviations: the layer's total is exactly H·B (the official rounding drifts). normalize=true
// weights a head by the share of its score inside its own best b, as KVCache-Factory does.
#include <array>

#include "runner/policies/builtin_parts.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr std::array<ParamInfo, 2> kParams = {{
    {"alpha", "0.2", "float 0…1"},
    {"normalize", "false", "true|false"},
}};

void apply(const PartSpec& part, Composition& composition) {
  composition.heads =
      HeadBudgets{float_param(part, "alpha"), part.params.at("normalize") == "true"};
}

}  // namespace

PartInfo adakv_part() {
  return {.name = "adakv",
          .summary = "Heads share their layer's budget by score (adakv = snapkv+adakv).",
          .paper = "Feng et al., 2024, arXiv:2407.11550",
          .source = "runner/policies/adakv.cpp",
          .params = kParams,
          .kind = PartInfo::Kind::kHeadBudgets,
          .alone = "snapkv",
          .apply = apply};
}

}  // namespace kvscope
