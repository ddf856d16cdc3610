#include "harness/report/probe_plan.h"

#include "harness/store/database.h"
#include "harness/store/statement.h"

namespace kvscope {

Json probe_plan_json(const SamplingPlan& plan) {
  return {{"text", plan.text()},
          {"complete", plan.is_complete()},
          {"layers", plan.layers},
          {"n_layers", plan.n_layers},
          {"ghosts_every_steps", plan.every > 0 ? Json(plan.every) : Json(nullptr)},
          {"burst_steps", plan.burst_rows}};
}

Json stored_probe_plan(Store& store, const std::string& sweep_uuid) {
  Statement s(store.database(), "SELECT options FROM sweep WHERE sweep_uuid=?");
  s.bind(sweep_uuid);
  if (!s.step()) return nullptr;
  const Json options = Json::parse(s.text(0), nullptr, false);
  return options.is_object() && options.contains("probe_plan") ? options["probe_plan"]
                                                               : Json(nullptr);
}

std::string sampled_note(const Json& plan, const std::string& what) {
  if (!plan.is_object() || plan.value("complete", true)) return {};
  return what + ": " + plan.value("text", "sampled") + "\n";
}

}  // namespace kvscope
