#include "runner/trace/trace_recorder.h"

#include <algorithm>

#include "runner/policies/spec.h"

namespace kvscope {

bool record_trace(Engine& engine, const TraceFacts& facts, std::span<const std::int32_t> ids,
                  std::string_view text, const std::filesystem::path& file,
                  const StopRequested& stop, const std::function<void(int)>& advanced) {
  TraceWriter writer(file, facts, ids, text);
  FitRequest fit;
  fit.budget.permille = 1000;
  fit.length = int(ids.size());
  fit.in_stream = true;
  const ScoreArm full{fit_policy(parse_policy("full"), fit)};
  ScoreRequest request;
  request.tokens = ids;
  request.first_scored = int(ids.size());  // no logits
  request.full_rows = [&](int layer, std::span<const float> qkv) {
    if (std::binary_search(facts.layers.begin(), facts.layers.end(), layer)) writer.add_layer(qkv);
    if (advanced) advanced(1);
  };
  if (!engine.score(request, {&full, 1}, stop)) return false;
  writer.finish();
  return true;
}

}  // namespace kvscope
