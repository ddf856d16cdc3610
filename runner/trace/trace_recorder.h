// Runs a text through the full cache and writes what its layers were given.
#pragma once

#include "runner/engine/engine.h"
#include "runner/trace/trace_writer.h"

namespace kvscope {

// facts: facts_of(engine.model()) with layers, n_tokens, prompt_tokens and store filled in. False:
// stopped, nothing is kept. advanced: called with every number of layers that are done. Throws
// UsageError like Engine::score, and what TraceWriter throws.
bool record_trace(Engine& engine, const TraceFacts& facts, std::span<const std::int32_t> ids,
                  std::string_view text, const std::filesystem::path& file,
                  const StopRequested& stop = {}, const std::function<void(int)>& advanced = {});

}  // namespace kvscope
