// Checking one parameter's text, reading it back, and fitting the ones that follow the budget.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runner/policies/registry.h"
#include "runner/policies/spec.h"

namespace kvscope {

// The value in its canonical spelling ("04" → "4", "0.50" → "0.5"). `where` starts the message of
// the UsageError thrown if `text` is not among `info.values`, whose forms are
//   "a|b"  "0…" and "1…8" (integers)  "odd 1…" (odd integers)  "float 0…1"; anything after " (" is
//   for people only.
std::string checked_value(std::string_view where, const ParamInfo& info, std::string_view text);

// Of a checked spec; the parameter must exist and not be "auto".
int int_param(const PolicySpec& spec, const std::string& name);
int int_param(const PartSpec& part, const std::string& name);
std::uint64_t seed_param(const PolicySpec& spec, const std::string& name);
float float_param(const PolicySpec& spec, const std::string& name);
float float_param(const PartSpec& part, const std::string& name);

// True for `full` and for a ratio of 1000 permille.
bool never_evicts(const PolicySpec& spec, const FitRequest& request);

// An unwritten ("auto") parameter is `wish`, at most `most`. A written one must be at most
// `most_written`, else DoesNotFit, which says `limit` (what the bound is, in words). Nothing has to
// fit where nothing is evicted.
int fit_param(const PolicySpec& spec, const FitRequest& request, const std::string& name, int wish,
              int most, int most_written, std::string_view limit);

}  // namespace kvscope
