// Decodes arms of several samples together. An arm has up to three roles: `free` continues with its
// own greedy tokens, `forced` follows the full arm's answer, `gold` the gold answer. Roles share
// one row as long as they were fed the same tokens, and part when these differ: equal inputs give
// equal bits, so sharing is exact.
#pragma once

#include <vector>

#include "runner/engine/layer_pass.h"

namespace kvscope {

struct DecodeArm {
  RowRule how;        // of every row of the arm; the probe watches the free one
  Sequence sequence;  // after the prompt
  Account account{PageShape{}};
  std::size_t account_rows = 0;  // rows that the prompt already used
  std::size_t prefill_rows = 0;
  std::vector<std::int64_t> bytes_by_layer;  // of the free row, at its end
  KvBytesByKind by_kind;                     // likewise
  SparseMeasure sparse;                      // of the prompt
  int tokens_seen = 0;                       // by the free row, at its end
  GenerateArmResult result;
};

struct DecodeSample {
  const GenerateRequest& request;
  std::span<const std::int32_t> feed;  // fed in every arm before anything is predicted
  int prompt_tokens = 0;
  std::vector<DecodeArm> arms;
};

// False: stopped.
bool decode_rows(EngineContext& context, Forward& forward, std::span<DecodeSample> samples,
                 const std::function<bool()>& stop);

}  // namespace kvscope
