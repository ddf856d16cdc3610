#include "runner/engine/engine.h"

#include "runner/base/error.h"
#include "runner/engine/engine_impl.h"
#include "runner/policies/registry.h"

namespace kvscope {

bool has_bounded_positions(const Policy& policy, bool in_stream, int context_length) {
  if (policy.never_evicts() || policy.positions() == PositionMode::kAbsolute) return false;
  if (!in_stream && (policy.prefill() != PrefillMode::kStreaming || !policy.scan_rule()))
    return false;
  return bounded_slots(policy, in_stream) <= context_length;
}

void require_suited(const Policy& policy, const ModelConfig& config) {
  if (config.form.learned_positions && policy.positions() != PositionMode::kAbsolute) {
    throw DoesNotFit("positions of " + config.architecture +
                     " models are learned vectors in the text, not angles of keys: they cannot be "
                     "shifted; write positions=absolute");
  }
  const Storage& storage = policy.storage();
  if (storage.format != Storage::Format::kKivi) return;
  try {
    check_kivi({storage.bits, storage.group_tokens, storage.residual_tokens}, config.head_dim);
  } catch (const UsageError& e) {
    throw DoesNotFit(e.what());
  }
}

int bounded_slots(const Policy& policy, bool in_stream) { return policy.most_slots(in_stream); }

Engine::Impl::Impl(const Model& model, Backend& backend)
    : context(model, backend), forward(model, backend) {}

void Engine::Impl::require_context(int positions, const char* what) const {
  const int limit = context.model.config.context_length;
  const bool learned = context.model.config.form.learned_positions;
  if (positions <= limit || (beyond_context && !learned)) return;
  throw UsageError(std::string(what) + " needs " + std::to_string(positions) +
                   " absolute positions, the model was trained for " + std::to_string(limit) +
                   ": shorten the text" + (learned ? "" : " or pass --beyond-context"));
}

void Engine::Impl::require_tokens(std::span<const std::int32_t> ids, const char* what) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= context.model.config.n_vocab) {
      throw UsageError(std::string(what) + ": token id " + std::to_string(ids[i]) + " at index " +
                       std::to_string(i) + " is outside the vocabulary of " +
                       std::to_string(context.model.config.n_vocab));
    }
  }
}

Engine::Engine(const Model& model, Backend& backend)
    : impl_(std::make_unique<Impl>(model, backend)) {}
Engine::~Engine() = default;

void Engine::allow_beyond_context(bool allow) { impl_->beyond_context = allow; }
void Engine::use_prefix_cache(std::int64_t max_bytes) {
  impl_->prefixes.reset();
  const Model& model = impl_->context.model;
  if (max_bytes > 0)
    impl_->prefixes.emplace(max_bytes, model.config.n_layers, model.attention_shape(0));
}
PrefixCacheCounters Engine::prefix_counters() const {
  return impl_->prefixes ? impl_->prefixes->counters() : PrefixCacheCounters{};
}
void Engine::use_host_rules(bool use) { impl_->context.host_rules = use; }
void Engine::release_memory() {
  EngineContext& context = impl_->context;
  context.pages.shrink();
  context.ghost_pages.shrink();
  for (auto& [format, pool] : context.quantised_pages) pool.shrink();
  for (Scratch* buffer : {&context.pass.x, &context.pass.qkv, &context.pass.attention,
                          &context.pass.lse, &context.logits.full, &context.logits.own})
    buffer->release();
  impl_->forward.release();
  context.backend.release_scratch();
}
const Model& Engine::model() const { return impl_->context.model; }
Backend& Engine::backend() const { return impl_->context.backend; }
std::int64_t Engine::pool_peak_bytes() const {
  const auto peak = [](const PagePool& pool) {
    return pool.peak_pages() * std::int64_t(pool.shape().page_bytes());
  };
  std::int64_t bytes = peak(impl_->context.pages);
  for (const auto& [format, pool] : impl_->context.quantised_pages) bytes += peak(pool);
  return bytes;
}
std::int64_t Engine::pool_held_pages() const {
  std::int64_t held = impl_->context.pages.held_pages() + impl_->context.ghost_pages.held_pages();
  for (const auto& [format, pool] : impl_->context.quantised_pages) held += pool.held_pages();
  return held;
}

}  // namespace kvscope
