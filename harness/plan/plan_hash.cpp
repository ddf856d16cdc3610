#include "harness/plan/plan_hash.h"

#include "runner/base/sha256.h"

namespace kvscope {

std::string plan_hash(const PlanIdentity& identity) {
  std::string content = "plan\nmodel " + identity.model_key + '\n';
  for (const std::string& key : identity.arm_keys) content += "arm " + key + '\n';
  for (const std::string& key : identity.dataset_keys) content += "dataset " + key + '\n';
  content += "probe " + identity.probe_level + '\n';
  if (identity.beyond_context) content += "beyond context\n";
  return sha256_hex(std::string_view(content));
}

}  // namespace kvscope
