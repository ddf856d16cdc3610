#include "runner/policies/registry.h"

#include <algorithm>
#include <array>

#include "runner/policies/builtin.h"

namespace kvscope {

std::span<const PolicyInfo> policies() {
  static const std::array kTable = {
      full_policy(),                //
      sliding_window_policy(),      //
      streaming_llm_policy(),       //
      random_policy(),              //
      lru_policy(),                 //
      h2o_policy(),                 //
      scissorhands_policy(),        //
      tova_policy(),                //
      snapkv_policy(),              //
      cake_policy(),                //
      knorm_policy(),               //
      keydiff_policy(),             //
      expected_attention_policy(),  //
      paged_eviction_policy(),      //
      quest_policy(),               //
  };
  return kTable;
}

std::span<const ParamInfo> common_params() {
  static constexpr std::array<ParamInfo, 6> kTable = {{
      {"decode", "self", "self|grow|window|tova|h2o (grow for prompt-end policies)"},
      {"positions", "absolute", "absolute|cache_relative|rerotate (streaming_llm cache_relative)"},
      {"protect_last", "true", "true|false"},
      {"prefill", "monolithic", "monolithic|streaming|two_pass"},
      {"chunk", "1", "1… (tokens between selections)", "prefill=streaming"},
      {"every", "1", "1… (decode rows between selections)"},
  }};
  return kTable;
}

const PolicyInfo* find_policy(std::string_view name) {
  const auto table = policies();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [name](const PolicyInfo& info) { return info.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace kvscope
