// What losing the ghosts does to a head's output (policies.md 8.3).
#pragma once

#include <span>

namespace kvscope {

struct OutputPerturbation {
  double error_norm = 0;  // ‖o_V - o_*‖₂
  double full_norm = 0;   // ‖o_*‖₂
  double ratio() const;   // δ = error / (full + ε)
};

// By the identity o_V - o_* = ρ·(o_V - o_E): the outputs of the visible set and of the ghosts alone
// and the rebound mass are all that is needed. visible_output, ghost_output: [head_dim].
OutputPerturbation output_perturbation(std::span<const float> visible_output,
                                       std::span<const float> ghost_output, double rebound);

}  // namespace kvscope
