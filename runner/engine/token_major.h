// The token loop that the layer-major scan replaces: every token of every arm through all layers,
// one at a time. Slow; it exists as the check (`score --token-major`) that both give the same bits.
#pragma once

#include "runner/engine/layer_pass.h"

namespace kvscope {

std::optional<std::vector<ScoreArmResult>> score_token_major(EngineContext& context,
                                                             Forward& forward,
                                                             const ScoreRequest& request,
                                                             std::span<const ScoreArm> arms,
                                                             const StopRequested& stop);

}  // namespace kvscope
