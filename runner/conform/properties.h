// What every policy must keep (policies.md 9), as functions of a policy and one random request. The
// numbers in the names are its items.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runner/conform/request.h"

namespace kvscope::conform {

struct Property {
  std::string_view name;
  std::string_view says;  // one line
  bool (*applies)(const Subject&);
  // Empty: it holds; else what is wrong.
  std::string (*check)(const Situation&);
};

// Of every policy by itself.
std::span<const Property> properties();
// Between policies of the registry: checked once a policy, not once a variant.
std::span<const Property> relations();

}  // namespace kvscope::conform
