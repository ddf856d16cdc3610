// FP8 cache: E4M3FN or E5M2, saturating, one scale per token and KV head (policies.md 4.2).
//
//   scale = max|x| / largest finite value, code = nearest of x / scale, ties to even
//
// Needs     : nothing.
// State     : one float per token for keys and one for values.
// Deviations: vLLM's default is one scale of 1.0 a tensor; a scale a token uses the format's range.
#include <array>

#include "runner/policies/builtin_parts.h"

namespace kvscope {
namespace {

constexpr std::array<ParamInfo, 1> kParams = {{
    {"format", "e4m3", "e4m3|e5m2"},
}};

void apply(const PartSpec& part, Composition& composition) {
  composition.storage = {.format = part.params.at("format") == "e4m3" ? Storage::Format::kFp8E4M3
                                                                      : Storage::Format::kFp8E5M2};
}

}  // namespace

PartInfo kv_fp8_part() {
  return {.name = "kv_fp8",
          .summary = "Stores keys and values in 8-bit floats with one scale a token.",
          .paper = "policies.md 4.2",
          .source = "runner/policies/kv_fp8.cpp",
          .params = kParams,
          .kind = PartInfo::Kind::kStorage,
          .alone = "full",
          .apply = apply};
}

}  // namespace kvscope
