// From hidden states to what a scored text needs: NLL of each token, its distance from the full
// cache, the likeliest next tokens.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runner/engine/engine.h"
#include "runner/engine/forward.h"

namespace kvscope {

// Hidden states of one arm's rows: row r belongs to token first_position + r; earlier rows are the
// reference's (the shared dense prompt).
struct HiddenRows {
  std::span<const float> x;  // [n_rows][d_model]
  int first_position = 0;
};

// Fills nll_nats, kl_full_nats, top1_agrees, top and error of each result. `reference` may be empty
// if no arm needs it (no compare_full and every arm's rows start at 0). False: stopped.
bool score_rows(Forward& forward, Backend& backend, int d_model, int n_vocab,
                const ScoreRequest& request, std::span<const float> reference,
                std::span<const HiddenRows> arms, std::span<ScoreArmResult> results,
                const std::function<bool()>& stop);

}  // namespace kvscope
