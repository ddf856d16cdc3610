// What Engine holds between calls; shared by score.cpp, token_major.cpp and generate.cpp.
#pragma once

#include "runner/engine/engine.h"
#include "runner/engine/layer_pass.h"

namespace kvscope {

// Most slots that an arm with bounded positions (engine.h) attends over at once.
int bounded_slots(const Policy& policy, bool in_stream);

struct Engine::Impl {
  Impl(const Model& model, Backend& backend);

  // Throws UsageError if `positions` absolute positions exceed the model's context and that was not
  // allowed.
  void require_context(int positions, const char* what) const;
  void require_tokens(std::span<const std::int32_t> ids, const char* what) const;

  EngineContext context;
  Forward forward;
  bool beyond_context = false;
  std::optional<PrefixStore> prefixes;
};

}  // namespace kvscope
