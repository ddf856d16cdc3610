// Decode attention alone, over caches that no processor cache holds.
#pragma once

#include "runner/backend/backend.h"

namespace kvscope {

struct AttentionSpeed {
  double bytes_per_call = 0.0;  // of keys and values
  double seconds_per_call = 0.0;
};

// One decode step of `n_sequences` full arms whose caches of n_tokens each share no page: the
// median of some calls.
AttentionSpeed decode_attention_speed(Backend& backend, const AttentionShape& shape, DType kv_dtype,
                                      int n_sequences, int n_tokens);

}  // namespace kvscope
