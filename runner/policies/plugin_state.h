// One unit's rule as a plug-in runs it. Nothing that the plug-in returns is trusted: what breaks
// its contract ends the arm (PolicyState::error()), and from then on the newest tokens stay.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runner/policies/plugin_library.h"
#include "runner/policies/policy_state.h"

namespace kvscope {

class PluginState final : public PolicyState {
 public:
  PluginState(std::shared_ptr<const PluginLibrary> library, const kvscope_unit& unit);
  ~PluginState() override;
  PluginState(const PluginState&) = delete;
  PluginState& operator=(const PluginState&) = delete;

  std::unique_ptr<PolicyState> clone() const override;
  void observe(const VisibleRow& row) override;
  std::vector<std::int32_t> select(const Slots& slots) const override;
  void compact(std::span<const std::int32_t> old_slot_of) override;
  std::int64_t state_bytes() const override {
    return std::int64_t{library_->policy().slot_state_bytes} * n_slots_;
  }
  std::string error() const override { return error_; }

 private:
  PluginState(std::shared_ptr<const PluginLibrary> library, const PluginState& other);

  // What the plug-in returned, -1 if it failed (and the unit is marked).
  template <class Call>
  std::int32_t code_of(const char* function, const Call& call) const;
  template <class Call>
  void* state_from(const char* function, const Call& call) const;
  bool fail(const std::string& why) const;  // false
  // Empty if the answer breaks the rules (and the unit is marked).
  std::vector<std::int32_t> ask(const Slots& slots) const;
  bool check(std::vector<std::int32_t>& keep, std::span<const std::int32_t> positions) const;

  std::shared_ptr<const PluginLibrary> library_;
  int layer_;
  int kv_head_;
  int budget_tokens_;
  bool protect_last_;
  void* state_ = nullptr;
  int n_slots_ = 0;  // that the plug-in has been shown
  // select() finds faults too, and a unit is never used by two threads at once.
  mutable std::string error_;
};

}  // namespace kvscope
