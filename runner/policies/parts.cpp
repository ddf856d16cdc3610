#include "runner/policies/parts.h"

#include <algorithm>
#include <array>

#include "runner/policies/builtin_parts.h"

namespace kvscope {

std::span<const PartInfo> parts() {
  static const std::array kTable = {
      pyramid_part(),     //
      adakv_part(),       //
      cake_part(),        //
      page_part(),        //
      kivi_part(),        //
      kv_int8_part(),     //
      kv_fp8_part(),      //
      minference_part(),  //
  };
  return kTable;
}

const PartInfo* find_part(std::string_view name) {
  const auto table = parts();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const PartInfo& info) { return info.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Composition compose(const PolicySpec& spec) {
  Composition composition;
  for (const PartSpec& part : spec.parts) find_part(part.name)->apply(part, composition);
  if (!spec.implied_part.empty()) composition.cake = cake_budgets(spec);
  return composition;
}

}  // namespace kvscope
