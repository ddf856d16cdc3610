// The parts of `show` that say which evicted tokens mattered.
#pragma once

#include <span>
#include <string>

#include "harness/report/json.h"
#include "harness/store/event_queries.h"

namespace kvscope {

Json events_json(std::span<const EventRow> events);
std::string events_text(std::span<const EventRow> events);  // "" for none

Json survival_json(std::span<const SurvivalByVerdict> sets);
std::string survival_text(std::span<const SurvivalByVerdict> sets);  // "" for none

}  // namespace kvscope
