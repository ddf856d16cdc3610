// The table of kvscope floors.
#include "harness/report/sweep_summary.h"
#include "harness/report/table.h"

namespace kvscope {

std::string floors_table(const std::vector<SweepTask>& tasks) {
  Table table(
      {"task", "cell", "n", "metric", "full cache [95 %]", "no context", "asked for", "verdict"});
  for (const std::size_t column : {1, 3, 7}) table.align(column, Table::Align::kLeft);
  for (const SweepTask& task : tasks) {
    if (task.dataset.ends_with("_no_context")) continue;
    for (const BaselineCell& cell : task.baseline) {
      std::string full = format_fixed(cell.mean, 2);
      if (cell.wilson95) {
        full += " [" + format_fixed(cell.wilson95->low, 2) + ", " +
                format_fixed(cell.wilson95->high, 2) + "]";
      }
      table.add_row({task.dataset, cell.cell, std::to_string(cell.n), cell.metric, full,
                     cell.no_context ? format_fixed(*cell.no_context, 2) : "-",
                     cell.least ? format_fixed(*cell.least, 2) : "-",
                     cell.clears() ? "ok" : "baseline too weak"});
    }
    for (const SweepRow& row : task.rows) {
      if (!task.baseline.empty()) break;
      const SweepValue* value = row.find(task.primary_metric);
      table.add_row({task.dataset, "", std::to_string(row.n_ok), task.primary_metric,
                     value == nullptr ? "-" : format_fixed(value->mean, 2), "-", "-", "no floor"});
    }
  }
  return table.text();
}

}  // namespace kvscope
