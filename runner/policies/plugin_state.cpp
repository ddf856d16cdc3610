#include "runner/policies/plugin_state.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kvscope {
namespace {

constexpr std::int32_t kFailed = -1;

// What the plug-in may read of a unit's slots, and whether it tried to read more.
class Contents {
 public:
  Contents(const PluginLibrary& library, const SlotReader* reader, std::size_t n_slots)
      : library_(library), reader_(reader), n_slots_(static_cast<std::int32_t>(n_slots)) {
    view_.host = this;
    view_.n_kv_heads = reader == nullptr ? 0 : reader->n_kv_heads();
    view_.head_dim = reader == nullptr ? 0 : reader->head_dim();
    view_.read_key = read_key;
    view_.read_value = read_value;
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  const kvscope_contents* view() const { return &view_; }
  const std::string& violation() const { return violation_; }

 private:
  static std::int32_t read_key(const void* host, std::int32_t kv_head, std::int32_t slot,
                               float* out) {
    const auto& self = *static_cast<const Contents*>(host);
    if (!self.allows(KVSCOPE_NEEDS_KEYS, "keys", kv_head, slot)) return kFailed;
    self.reader_->read_key(kv_head, slot, {out, static_cast<std::size_t>(self.view_.head_dim)});
    return 0;
  }
  static std::int32_t read_value(const void* host, std::int32_t kv_head, std::int32_t slot,
                                 float* out) {
    const auto& self = *static_cast<const Contents*>(host);
    if (!self.allows(KVSCOPE_NEEDS_VALUES, "values", kv_head, slot)) return kFailed;
    self.reader_->read_value(kv_head, slot, {out, static_cast<std::size_t>(self.view_.head_dim)});
    return 0;
  }

  bool allows(unsigned need, const char* what, std::int32_t kv_head, std::int32_t slot) const {
    std::string why;
    if (!library_.needs(need)) {
      why = std::string("read ") + what + " without declaring the need";
    } else if (reader_ == nullptr) {
      why = std::string("read ") + what + " where there are none";
    } else if (slot < 0 || slot >= n_slots_ || kv_head < 0 || kv_head >= view_.n_kv_heads) {
      why = std::string("read ") + what + " of slot " + std::to_string(slot) + " of " +
            std::to_string(n_slots_) + ", KV head " + std::to_string(kv_head) + " of " +
            std::to_string(view_.n_kv_heads);
    }
    if (!why.empty() && violation_.empty()) violation_ = why;
    return why.empty();
  }

  const PluginLibrary& library_;
  const SlotReader* reader_;
  std::int32_t n_slots_;
  kvscope_contents view_{};
  mutable std::string violation_;
};

std::vector<std::int32_t> first_slots(std::size_t n) {
  std::vector<std::int32_t> slots(n);
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

// What stays where the plug-in has failed.
std::vector<std::int32_t> newest(std::span<const std::int32_t> positions, int budget_tokens) {
  std::vector<std::int32_t> slots = first_slots(positions.size());
  std::sort(slots.begin(), slots.end(),
            [&](std::int32_t a, std::int32_t b) { return positions[a] > positions[b]; });
  slots.resize(std::min(slots.size(), static_cast<std::size_t>(budget_tokens)));
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace

PluginState::PluginState(std::shared_ptr<const PluginLibrary> library, const kvscope_unit& unit)
    : library_(std::move(library)),
      layer_(unit.layer),
      kv_head_(unit.kv_head),
      budget_tokens_(unit.budget_tokens),
      protect_last_(unit.protect_last != 0) {
  state_ = state_from("create", [&] { return library_->policy().create(&unit); });
}

PluginState::PluginState(std::shared_ptr<const PluginLibrary> library, const PluginState& other)
    : library_(std::move(library)),
      layer_(other.layer_),
      kv_head_(other.kv_head_),
      budget_tokens_(other.budget_tokens_),
      protect_last_(other.protect_last_),
      n_slots_(other.n_slots_),
      error_(other.error_) {
  if (error_.empty())
    state_ = state_from("clone", [&] { return library_->policy().clone(other.state_); });
}

PluginState::~PluginState() {
  if (state_ == nullptr) return;
  try {
    library_->policy().destroy(state_);
  } catch (...) {  // a C++ plug-in that throws here has nothing left to say
  }
}

std::unique_ptr<PolicyState> PluginState::clone() const {
  return std::unique_ptr<PolicyState>(new PluginState(library_, *this));
}

bool PluginState::fail(const std::string& why) const {
  if (error_.empty()) {
    error_ = "plug-in " + std::string(library_->policy().name) + ", layer " +
             std::to_string(layer_) + ", KV head " + std::to_string(kv_head_) + ": " + why;
  }
  return false;
}

template <class Call>
std::int32_t PluginState::code_of(const char* function, const Call& call) const {
  // C++ plug-ins may throw; nothing of that leaves this unit.
  try {
    const std::int32_t code = call();
    if (code < 0) fail(std::string(function) + " failed with code " + std::to_string(code));
    return code;
  } catch (const std::exception& thrown) {
    fail(std::string(function) + " threw: " + thrown.what());
  } catch (...) {
    fail(std::string(function) + " threw an exception");
  }
  return kFailed;
}

template <class Call>
void* PluginState::state_from(const char* function, const Call& call) const {
  void* state = nullptr;
  const std::int32_t code = code_of(function, [&] {
    state = call();
    return 0;
  });
  if (code >= 0 && state == nullptr) fail(std::string(function) + " returned no state");
  return state;
}

void PluginState::observe(const VisibleRow& row) {
  n_slots_ = static_cast<int>(row.positions.size());
  if (!error_.empty()) return;
  const Contents contents(*library_, row.reader, row.positions.size());
  kvscope_row view{};
  view.n_slots = static_cast<std::int32_t>(row.positions.size());
  view.positions = row.positions.data();
  if (library_->needs(KVSCOPE_NEEDS_PROBABILITIES)) view.probabilities = row.probabilities.data();
  view.n_query_heads = row.n_query_heads;
  if (library_->needs(KVSCOPE_NEEDS_QUERIES)) view.queries = row.queries.data();
  view.inverse_frequency = row.inverse_frequency.data();
  view.contents = contents.view();
  code_of("observe", [&] { return library_->policy().observe(state_, &view); });
  if (!contents.violation().empty()) fail("observe " + contents.violation());
}

std::vector<std::int32_t> PluginState::select(const Slots& slots) const {
  const std::size_t n = slots.positions.size();
  if (n <= static_cast<std::size_t>(budget_tokens_)) return first_slots(n);
  if (error_.empty()) {
    std::vector<std::int32_t> keep = ask(slots);
    if (!keep.empty()) return keep;
  }
  return newest(slots.positions, budget_tokens_);
}

std::vector<std::int32_t> PluginState::ask(const Slots& slots) const {
  // Entries behind the end show a plug-in that writes a little too much.
  constexpr std::size_t kGuards = 64;
  constexpr std::int32_t kUntouched = std::numeric_limits<std::int32_t>::min();
  const std::size_t n = slots.positions.size();
  std::vector<std::int32_t> keep(n + kGuards, kUntouched);
  const Contents contents(*library_, slots.reader, n);
  const kvscope_slots view{static_cast<std::int32_t>(n), slots.positions.data(), contents.view()};
  const std::int32_t count = code_of("select", [&] {
    return library_->policy().select(state_, &view, budget_tokens_, keep.data(), view.n_slots);
  });
  if (count < 0) return {};
  if (!contents.violation().empty()) {
    fail("select " + contents.violation());
    return {};
  }
  const auto behind = keep.begin() + static_cast<std::ptrdiff_t>(n);
  if (std::any_of(behind, keep.end(), [](std::int32_t slot) { return slot != kUntouched; })) {
    fail("select wrote behind the end of its buffer");
    return {};
  }
  if (count < 1 || count > budget_tokens_) {
    fail("select kept " + std::to_string(count) + " slots; 1 to the budget of " +
         std::to_string(budget_tokens_) + " may stay");
    return {};
  }
  keep.resize(static_cast<std::size_t>(count));
  return check(keep, slots.positions) ? keep : std::vector<std::int32_t>();
}

bool PluginState::check(std::vector<std::int32_t>& keep,
                        std::span<const std::int32_t> positions) const {
  std::sort(keep.begin(), keep.end());
  const auto n = static_cast<std::int32_t>(positions.size());
  for (const std::int32_t slot : keep) {
    if (slot < 0 || slot >= n)
      return fail("select kept slot " + std::to_string(slot) + " of " + std::to_string(n));
  }
  const auto twice = std::adjacent_find(keep.begin(), keep.end());
  if (twice != keep.end()) return fail("select kept slot " + std::to_string(*twice) + " twice");
  const auto last = std::max_element(positions.begin(), positions.end()) - positions.begin();
  if (protect_last_ && !std::binary_search(keep.begin(), keep.end(), last))
    return fail("select dropped the newest token, which must stay unless protect_last=false");
  return true;
}

void PluginState::compact(std::span<const std::int32_t> old_slot_of) {
  const auto n = static_cast<int>(old_slot_of.size());
  // Every selection ends here, also one that moved nothing.
  const bool nothing_left =
      n == n_slots_ && std::equal(old_slot_of.begin(), old_slot_of.end(), first_slots(n).begin());
  n_slots_ = n;
  if (nothing_left || !error_.empty()) return;
  code_of("compact", [&] { return library_->policy().compact(state_, old_slot_of.data(), n); });
}

}  // namespace kvscope
