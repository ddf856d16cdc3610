// The sweep's table and its two sentences, for people.
#include <algorithm>
#include <cmath>
#include <map>

#include "harness/report/probe_plan.h"
#include "harness/report/sweep_summary.h"
#include "harness/report/table.h"
#include "harness/store/metric_info.h"

namespace kvscope {
namespace {

std::string with_error(const SweepValue* value, int decimals) {
  if (value == nullptr) return "-";
  std::string text = format_fixed(value->mean, decimals);
  if (value->stderr_mean) text += " ± " + format_fixed(*value->stderr_mean, decimals);
  return text;
}

std::string signed_fixed(double value, int decimals) {
  std::string text = value > 0 ? "+" : "";
  return text.append(format_fixed(value, decimals));
}

std::string difference(const SweepValue* value, int decimals) {
  if (value == nullptr || !value->to_full || !value->to_full->mean_difference) return "-";
  std::string text = signed_fixed(*value->to_full->mean_difference, decimals);
  if (const auto& inference = value->to_full->inference) {
    text += " [" + signed_fixed(inference->ci95.low, decimals) + ", " +
            signed_fixed(inference->ci95.high, decimals) + "]";
  }
  return text;
}

double value_or_nan(const SweepRow& row, std::string_view metric) {
  const SweepValue* value = row.find(metric);
  return value != nullptr ? value->mean : std::nan("");
}

// Better than full by more than the interval of the paired difference allows to explain.
bool beats_full(const SweepValue& value) {
  if (!value.to_full || !value.to_full->inference) return false;
  const Interval& ci = value.to_full->inference->ci95;
  return value.better == "lower" ? ci.high < 0 : value.better == "higher" && ci.low > 0;
}

bool is_hidden(const SweepTask& task) { return task.question_visibility == "hidden"; }

// The arms of one budget over all tasks.
struct ArmView {
  const SweepRow* row = nullptr;  // on the first task
  const SweepTask* task = nullptr;
  double kl_nats = 0.0;  // mean over tasks: the one metric that every task has
  int tasks = 0;
};

std::string primary_phrase(const std::vector<SweepTask>& tasks, const std::string& arm_key) {
  std::string text;
  for (const SweepTask& task : tasks) {
    const auto is_arm = [&](const SweepRow& row) { return row.arm.arm_key == arm_key; };
    const auto row = std::ranges::find_if(task.rows, is_arm);
    if (row == task.rows.end() || task.rows.empty()) continue;
    const SweepValue* value = row->find(task.primary_metric);
    const SweepValue* full = task.rows.front().find(task.primary_metric);
    if (value == nullptr || full == nullptr) continue;
    text += text.empty() ? "" : ", ";
    text += task.task + " " + task.primary_metric + " " + format_fixed(value->mean, 2) +
            " instead of " + format_fixed(full->mean, 2);
  }
  return text;
}

std::string bytes_phrase(const SweepRow& row, const SweepTask& task) {
  const double arm = value_or_nan(row, "kv_steady_bytes");
  const double full = value_or_nan(task.rows.front(), "kv_steady_bytes");
  if (!std::isfinite(arm) || !std::isfinite(full) || full <= 0) return {};
  return " (" + format_percent(arm / full, 0) + " of the full cache's bytes at the end of a " +
         task.task + " sample)";
}

// The primary metric in each cell where there are several, one column a cell.
std::string cells_table(const SweepTask& task) {
  constexpr std::size_t kMostColumns = 12;
  const auto& first = task.rows.front().cells;
  if (first.size() < 2 || first.size() > kMostColumns) return {};
  std::vector<std::string> header = {task.primary_metric + " at"};
  for (const CellValues& cell : first) header.push_back(cell.cell);
  Table table(std::move(header));
  for (const SweepRow& row : task.rows) {
    std::vector<std::string> cells = {row.arm.label};
    for (const CellValues& column : first) {
      const auto it = std::ranges::find(row.cells, column.cell, &CellValues::cell);
      cells.push_back(it == row.cells.end() ? "-" : format_fixed(it->mean(), 3));
    }
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string rates_table(const SweepTask& task) {
  Table table({"over the whole text", "token ppl", "word ppl", "byte ppl", "bits/byte"});
  for (const SweepRow& row : task.rows) {
    if (!row.rates) continue;
    table.add_row({row.arm.label, format_fixed(row.rates->token_perplexity, 3),
                   format_fixed(row.rates->word_perplexity, 3),
                   format_fixed(row.rates->byte_perplexity, 4),
                   format_fixed(row.rates->bits_per_byte, 4)});
  }
  return table.empty() ? std::string() : table.text();
}

}  // namespace

std::string sweep_table(const SweepTask& task) {
  // Beside the primary metric stands the one that explains it.
  const bool text_task = task.primary_metric == "nll_nats";
  const std::string second_metric = text_task                                ? "perplexity"
                                    : task.primary_metric == "gold_nll_nats" ? "token_f1"
                                    : task.primary_metric == "kl_full_nats"  ? "answer_agreement"
                                                                             : "gold_nll_nats";
  std::vector<std::string> header = {"arm", "n", task.primary_metric, "minus full [95 %]"};
  header.push_back(second_metric);
  for (const char* name : {"KL", "rebound", "hit@32", "KV peak", "of full", "KV kept", "of full"}) {
    header.emplace_back(name);
  }
  Table table(std::move(header));
  bool has_numbers = false;
  bool has_sampled = false;
  const SweepRow* full = task.rows.empty() ? nullptr : &task.rows.front();
  std::map<std::string, int> reasons;
  for (const SweepRow& row : task.rows) {
    has_numbers |= row.n_ok > 0;
    const SweepValue* primary = row.find(task.primary_metric);
    const double second =
        text_task ? std::exp(value_or_nan(row, "nll_nats")) : value_or_nan(row, second_metric);
    std::vector<std::string> cells = {row.arm.label, std::to_string(row.n_ok),
                                      with_error(primary, 3), difference(primary, 3),
                                      format_fixed(second, text_task ? 2 : 3)};
    cells.push_back(format_fixed(value_or_nan(row, "kl_full_nats"), 3));
    for (const char* metric : {"rebound_mass", "hit_at_32"}) {
      const SweepValue* sampled = row.find(std::string(metric) + std::string(kSampledSuffix));
      cells.push_back(sampled != nullptr ? with_error(sampled, 3)
                                         : format_fixed(value_or_nan(row, metric), 3));
      has_sampled |= sampled != nullptr;
    }
    for (const char* metric : {"kv_peak_bytes", "kv_steady_bytes"}) {
      const double bytes = value_or_nan(row, metric);
      cells.push_back(std::isfinite(bytes) ? format_bytes(std::llround(bytes)) : "-");
      cells.push_back(format_percent(bytes / value_or_nan(*full, metric), 0));
    }
    table.add_row(std::move(cells));
    if (row.n_skipped + row.n_error > 0) reasons[row.reason] += row.n_skipped + row.n_error;
  }
  std::string text = task.task;
  if (task.dataset != task.task) text.append(" (").append(task.dataset).append(")");
  if (is_hidden(task)) text += ", question hidden";
  text += "\n";
  if (has_numbers) text += table.text();
  if (has_sampled) text += "  " + sampled_note(task.probe_plan, "rebound, hit@32");
  if (has_numbers) text += cells_table(task) + rates_table(task);
  for (const auto& [reason, n] : reasons) {
    text += "  " + std::to_string(n) + " results without numbers: " + reason + "\n";
  }
  text += cell_warnings(task.baseline);
  text += notes_text(task.notes);
  return text;
}

namespace {

// The sentences about tasks of one visibility.
std::string sentences_of(const std::vector<SweepTask>& tasks) {
  std::map<double, std::map<std::string, ArmView>> by_budget;  // ratio or tokens → arm key → view
  std::string winners;
  for (const SweepTask& task : tasks) {
    for (const SweepRow& row : task.rows) {
      if (row.arm.policy == "full") continue;
      const SweepValue* kl = row.find("kl_full_nats");
      if (kl == nullptr) continue;
      ArmView& view = by_budget[std::stod(row.arm.budget)][row.arm.arm_key];
      if (view.row == nullptr) {
        view.row = &row;
        view.task = &task;
      }
      view.kl_nats += kl->mean;
      ++view.tasks;
      const SweepValue* primary = row.find(task.primary_metric);
      if (primary != nullptr && beats_full(*primary)) {
        winners += (winners.empty() ? "" : ", ") + row.arm.label + " on " + task.task;
      }
    }
  }
  if (by_budget.empty())
    return "No arm beside the full cache has results, so there is nothing to compare.";
  const auto mean_kl = [](const auto& entry) { return entry.second.kl_nats / entry.second.tasks; };
  const auto& arms = by_budget.begin()->second;  // of the smallest one
  const auto best = std::ranges::min_element(arms, {}, mean_kl);
  const auto worst = std::ranges::max_element(arms, {}, mean_kl);
  std::string text = "At the smallest budget (" + best->second.row->arm.budget + "), " +
                     best->second.row->arm.policy +
                     bytes_phrase(*best->second.row, *best->second.task) +
                     " stays closest to the full cache: " + primary_phrase(tasks, best->first) +
                     ", KL " + format_significant(mean_kl(*best), 2) + " nats.";
  if (arms.size() > 1) {
    text += " " + worst->second.row->arm.policy + " is furthest from it (" +
            primary_phrase(tasks, worst->first) + ", KL " + format_significant(mean_kl(*worst), 2) +
            " nats), and ";
  } else {
    text += " Over the whole sweep ";
  }
  text +=
      winners.empty()
          ? "no arm beats the full cache by more than the 95 % interval of the paired difference."
          : "better than the full cache by more than the 95 % interval: " + winners +
                " (with many arms, some of these are chance).";
  return text;
}

}  // namespace

std::string sweep_sentences(const std::vector<SweepTask>& tasks) {
  std::vector<SweepTask> visible;
  std::vector<SweepTask> hidden;
  for (const SweepTask& task : tasks) (is_hidden(task) ? hidden : visible).push_back(task);
  if (hidden.empty()) return sentences_of(visible);
  const std::string text = "Question hidden: " + sentences_of(hidden);
  return visible.empty() ? text : "Question visible: " + sentences_of(visible) + "\n" + text;
}

}  // namespace kvscope
