// Page granularity around any score: tokens leave a page at a time (policies.md 2.16, "page_wrap").
//
//   page score = mean, max or sum of its tokens' scores
//   keep       : while more than B tokens are resident and the newest page has just become full,
//                the page of lowest score leaves (ties: older); never the newest nor sink pages
//
// Needs     : what the score needs.
// State     : the page of each token, 4 bytes.
// Deviations: at the prompt's end tokens are cut to B before pages are formed, as PagedEviction
// does. Between selections up to B + page - 1 tokens are resident.
#include "runner/policies/page_wrap.h"

#include <array>

#include "runner/policies/builtin_parts.h"
#include "runner/policies/params.h"

namespace kvscope {
namespace {

constexpr std::array<ParamInfo, 3> kParams = {{
    {"size", "16", "1…"},
    {"agg", "mean", "mean|max|sum"},
    {"sink_pages", "0", "0…"},
}};

void apply(const PartSpec& part, Composition& composition) {
  const std::string& agg = part.params.at("agg");
  composition.page = PageWrap{int_param(part, "size"), int_param(part, "sink_pages"),
                              agg == "mean"  ? PageReduction::kMean
                              : agg == "max" ? PageReduction::kMax
                                             : PageReduction::kSum};
}

}  // namespace

PartInfo page_part() {
  return {.name = "page",
          .summary = "Tokens leave a page at a time, by the page's mean, maximum or sum of scores.",
          .paper = "policies.md 2.16",
          .source = "runner/policies/page.cpp",
          .params = kParams,
          .kind = PartInfo::Kind::kGranularity,
          .alone = "",
          .apply = apply};
}

}  // namespace kvscope
