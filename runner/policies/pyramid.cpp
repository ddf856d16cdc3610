// PyramidKV: earlier layers get more (Cai et al., 2024, arXiv:2406.02069).
//
//   hi = min(2b - b/beta, P - w), lo = 2b - hi, layer l gets hi - (hi - lo)·l / (L - 1), plus w
//
// where b = B - w and w are the protected newest tokens of the score (its window). Integers by
// largest remainder: the layers' mean is exactly B.
//
// Needs     : nothing; the score decides who stays within a layer.
// State     : none.
// Deviations: exact total (the official code floors each step and overshoots; it falls back to
// equal budgets for P < 2b). compat=kvpress computes budgets as KVPress does, window included.
#include <array>

#include "runner/policies/builtin_parts.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr std::array<ParamInfo, 2> kParams = {{
    {"beta", "20", "float 1…"},
    {"compat", "none", "none|kvpress"},
}};

void apply(const PartSpec& part, Composition& composition) {
  composition.pyramid =
      PyramidBudgets{float_param(part, "beta"), part.params.at("compat") == "kvpress"};
}

}  // namespace

PartInfo pyramid_part() {
  return {.name = "pyramid",
          .summary = "Earlier layers get more of the budget (pyramidkv = snapkv+pyramid).",
          .paper = "Cai et al., 2024, arXiv:2406.02069",
          .source = "runner/policies/pyramid.cpp",
          .params = kParams,
          .kind = PartInfo::Kind::kLayerBudgets,
          .alone = "snapkv",
          .apply = apply};
}

}  // namespace kvscope
