#include "harness/commands/show_events.h"

#include <algorithm>

#include "harness/insight/why_report.h"
#include "harness/report/table.h"

namespace kvscope {

Json events_json(std::span<const EventRow> events) {
  Json rows = Json::array();
  for (const EventRow& row : events) {
    const ReboundEvent& e = row.record.event;
    rows.push_back(
        {{"sample", row.sample_key},
         {"layer", e.layer},
         {"kv_head", e.kv_head},
         {"position", e.position},
         {"token", row.record.token},
         {"evicted_at", e.evicted_at},
         {"rebound_at", e.rebound_at},
         {"step", e.step},
         {"mass", json_number(double(e.mass))},
         {"rank", e.rank},
         {"wrongful", e.is_wrongful},
         {"kl_full_nats", row.record.kl_full_nats ? json_number(*row.record.kl_full_nats) : Json()},
         {"answered_right", row.answered ? Json(*row.answered) : Json()}});
  }
  return rows;
}

std::string events_text(std::span<const EventRow> events) {
  if (events.empty()) return {};
  Table table({"sample", "step", "token", "position", "evicted after", "layer", "KV head", "mass",
               "rank", "wrongful", "KL", "answer"});
  table.align(2, Table::Align::kLeft);
  for (const EventRow& row : events) {
    const ReboundEvent& e = row.record.event;
    table.add_row(
        {row.sample_key, std::to_string(e.step), row.record.token, std::to_string(e.position),
         std::to_string(e.evicted_at), std::to_string(e.layer), std::to_string(e.kv_head),
         format_percent(double(e.mass), 1), std::to_string(e.rank), e.is_wrongful ? "yes" : "no",
         row.record.kl_full_nats ? format_significant(*row.record.kl_full_nats, 3) : "-",
         row.answered ? (*row.answered ? "right" : "wrong") : "-"});
  }
  return "\nRebound events, the heaviest (local frame):\n" + table.text();
}

Json survival_json(std::span<const SurvivalByVerdict> sets) {
  Json rows = Json::array();
  for (const SurvivalByVerdict& set : sets) {
    rows.push_back({{"task", set.task},
                    {"dataset", set.dataset},
                    {"n_right", set.n_right},
                    {"n_wrong", set.n_wrong},
                    {"survival_right", set.n_right > 0 ? Json(set.right) : Json()},
                    {"survival_wrong", set.n_wrong > 0 ? Json(set.wrong) : Json()},
                    {"right_by_layer", set.right_by_layer},
                    {"wrong_by_layer", set.wrong_by_layer}});
  }
  return rows;
}

std::string survival_text(std::span<const SurvivalByVerdict> sets) {
  if (sets.empty()) return {};
  Table table({"task", "answered", "samples", "evidence cached", "by layer"});
  table.align(1, Table::Align::kLeft).align(4, Table::Align::kLeft);
  for (const SurvivalByVerdict& set : sets) {
    if (set.n_right > 0) {
      table.add_row({set.task, "right", std::to_string(set.n_right), format_percent(set.right, 1),
                     sparkline(set.right_by_layer)});
    }
    if (set.n_wrong > 0) {
      table.add_row({set.task, "wrong", std::to_string(set.n_wrong), format_percent(set.wrong, 1),
                     sparkline(set.wrong_by_layer)});
    }
  }
  return "\nShare of the asked-for fact's keys and values still cached at the answer's end:\n" +
         table.text();
}

}  // namespace kvscope
