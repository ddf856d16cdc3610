// INT8 cache: symmetric, one scale per token and KV head (policies.md 4.2).
//
//   scale = max|x| / 127, code = round(x / scale)
//
// Needs     : nothing.
// State     : one float per token for keys and one for values.
// Deviations: none; goes with every score.
#include "runner/policies/builtin_parts.h"

namespace kvscope {
namespace {

void apply(const PartSpec&, Composition& composition) {
  composition.storage = {.format = Storage::Format::kInt8};
}

}  // namespace

PartInfo kv_int8_part() {
  return {.name = "kv_int8",
          .summary = "Stores keys and values in 8-bit integers with one scale a token.",
          .paper = "policies.md 4.2",
          .source = "runner/policies/kv_int8.cpp",
          .params = {},
          .kind = PartInfo::Kind::kStorage,
          .alone = "full",
          .apply = apply};
}

}  // namespace kvscope
