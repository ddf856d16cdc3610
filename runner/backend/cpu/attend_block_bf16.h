// attend_block.h for bf16 pages with AVX-512-BF16: vdpbf16ps multiplies two products a lane and
// step, twice the rate of float32.
#pragma once

#include "runner/backend/cpu/attend_block.h"

namespace kvscope::cpu {

// Whether this build and this processor have it for such heads.
bool has_native_bf16_attention(int head_dim);

void attend_block_bf16(QueryState* queries, int n_queries, const PageView* pages, int n_pages,
                       int head_dim);
void block_logits_bf16(const QueryState* queries, int n_queries, const PageView* pages, int n_pages,
                       int head_dim);

}  // namespace kvscope::cpu
