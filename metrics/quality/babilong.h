#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvscope {

// BABILong's score (Kuratov et al. 2024): of the answer's first sentence in lower case, 1 if the
// gold is the only one of the task's labels in it that the question does not name. `labels` empty:
// those of qa1 to qa4 (the six rooms).
double babilong(std::string_view answer, std::span<const std::string> golds,
                std::string_view question, std::span<const std::string> labels = {});

}  // namespace kvscope
