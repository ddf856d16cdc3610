// KIVI: keys quantised per channel, values per token (Liu et al., ICML 2024, arXiv:2402.02750).
//
//   zero = min, scale = (max - min) / (2^bits - 1), code = round((x - zero) / scale)
//
// keys in groups of `group` consecutive tokens of one channel (after RoPE), values in groups of
// `group` consecutive channels of one token.
//
//   schedule: a prompt's keys are quantised in blocks of `residual` tokens, the rest stays full;
//             when the rest reaches `residual` it is quantised as a block. Values: the newest
//             `residual` stay full, one token is quantised a step.
//
// Needs     : nothing.
// State     : scale and zero of each group.
// Deviations: packed for real: the pages of quantised tokens return to the pool. Key groups span
// tokens, so a token cannot leave once it is quantised: with an evicting score, decode=grow only.
#include <array>

#include "runner/policies/builtin_parts.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr std::array<ParamInfo, 3> kParams = {{
    {"bits", "2", "2|4|8"},
    {"group", "32", "1…"},
    {"residual", "32", "1…"},
}};

void apply(const PartSpec& part, Composition& composition) {
  composition.storage = {Storage::Format::kKivi, int_param(part, "bits"), int_param(part, "group"),
                         int_param(part, "residual")};
}

}  // namespace

PartInfo kivi_part() {
  return {.name = "kivi",
          .summary = "Stores keys per channel and values per token in 2 to 8 bits.",
          .paper = "Liu et al., ICML 2024, arXiv:2402.02750",
          .source = "runner/policies/kivi.cpp",
          .params = kParams,
          .kind = PartInfo::Kind::kStorage,
          .alone = "full",
          .apply = apply};
}

}  // namespace kvscope
