// policy-vectors.json as it was when this was built.
#pragma once

#include <string_view>

namespace kvscope::conform {

extern const std::string_view kPolicyVectors;

}  // namespace kvscope::conform
