#include "harness/gate/gate_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include "harness/report/table.h"

namespace kvscope {
namespace {

constexpr int kAnnotationsOfAKind = 10;

std::string text_of(double value) { return format_significant(value, 4); }

// Worst first, in order of the checks.
std::vector<const CheckResult*> worst_first(const GateReport& report) {
  std::vector<const CheckResult*> ordered;
  for (const CheckResult& result : report.results) ordered.push_back(&result);
  const auto rank = [](const CheckResult* result) {
    constexpr std::array kOrder = {Verdict::kError, Verdict::kFail, Verdict::kInconclusive,
                                   Verdict::kPass};
    return std::ranges::find(kOrder, result->verdict) - kOrder.begin();
  };
  std::ranges::stable_sort(ordered, {}, rank);
  return ordered;
}

std::string interval_of(const CheckResult& result) {
  const auto& seen = result.figures.inference;
  return seen ? text_of(seen->lower) + " … " + text_of(seen->upper) : "-";
}

std::string escaped_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// A cell of a Markdown table.
std::string escaped_markdown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '`' || c == '*' || c == '_' || c == '<') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// The property of a workflow command, or its message.
std::string escaped_command(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '%':
        out += "%25";
        break;
      case '\r':
        out += "%0D";
        break;
      case '\n':
        out += "%0A";
        break;
      case ':':
        out += property ? "%3A" : ":";
        break;
      case ',':
        out += property ? "%2C" : ",";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string figures_line(const CheckResult& result) {
  std::string line = "pairs " + std::to_string(result.figures.n) + ", clusters " +
                     std::to_string(result.figures.clusters) + ", margin " +
                     text_of(result.rule.margin);
  if (const auto& seen = result.figures.inference) {
    line += ", difference " + text_of(seen->delta) + " [" + interval_of(result) + "], adjusted p " +
            text_of(result.p_adjusted) + ", would see " + text_of(seen->detectable_effect);
  }
  return line;
}

Json inference_json(const GateFigures::Inference& seen) {
  return {{"delta", json_number(seen.delta)},
          {"se_clustered", json_number(seen.se)},
          {"df", seen.df},
          {"lower", json_number(seen.lower)},
          {"upper", json_number(seen.upper)},
          {"p_worse", json_number(seen.p_worse)},
          {"p_noninferior", json_number(seen.p_noninferior)},
          {"p_equivalent", json_number(seen.p_equivalent)},
          {"p_sign_flip", seen.p_sign_flip ? json_number(*seen.p_sign_flip) : Json(nullptr)},
          {"mde_power_80", json_number(seen.detectable_effect)},
          {"clusters_to_decide",
           seen.clusters_to_decide ? Json(*seen.clusters_to_decide) : Json(nullptr)}};
}

Json history_json(const CheckHistory& history) {
  Json json = {{"nights", history.nights},
               {"evidence_of_worse", json_number(history.evidence_of_worse)},
               {"alarm", history.alarm},
               {"change", nullptr}};
  if (const auto& change = history.change) {
    json["change"] = {{"first_night_after", change->first_after},
                      {"before", json_number(change->before)},
                      {"after", json_number(change->after)},
                      {"p", json_number(change->p)}};
  }
  return json;
}

}  // namespace

Json gate_json(const GateReport& report) {
  Json checks = Json::array();
  for (const CheckResult& result : report.results) {
    Json check = {{"name", result.name},
                  {"verdict", name_of(result.verdict)},
                  {"reason", result.reason},
                  {"warn_only", result.check.warn_only},
                  {"candidate", result.candidate_label},
                  {"baseline", result.baseline_label},
                  {"task", result.task},
                  {"dataset", result.dataset},
                  {"dataset_key", result.dataset_key},
                  {"metric", result.check.metric},
                  {"unit", result.unit},
                  {"better", result.better},
                  {"margin", json_number(result.rule.margin)},
                  {"equivalence", result.rule.equivalence},
                  {"pairs", result.figures.n},
                  {"clusters", result.figures.clusters},
                  {"nonfinite_pairs", result.figures.nonfinite_pairs},
                  {"identical", result.figures.identical},
                  {"candidate_mean", json_number(result.candidate_mean)},
                  {"baseline_mean",
                   result.baseline_mean ? json_number(*result.baseline_mean) : Json(nullptr)},
                  {"p_adjusted", json_number(result.p_adjusted)},
                  {"inference", nullptr},
                  {"mcnemar_exact", nullptr},
                  {"history", history_json(result.history)}};
    if (result.figures.inference) check["inference"] = inference_json(*result.figures.inference);
    if (const auto& mcnemar = result.figures.mcnemar) {
      check["mcnemar_exact"] = {{"gained", mcnemar->gained},
                                {"lost", mcnemar->lost},
                                {"p_less", mcnemar->p_less},
                                {"p_two_sided", mcnemar->p_two_sided}};
    }
    checks.push_back(std::move(check));
  }
  return {{"schema", "kvscope-gate-1"},         {"gate", report.name},
          {"database", report.database},        {"alpha", report.alpha},
          {"verdict", name_of(report.verdict)}, {"checks", checks}};
}

std::string gate_table(const GateReport& report) {
  Table table({"verdict", "check", "pairs", "difference", "bounds", "margin", "p adj."});
  table.align(1, Table::Align::kLeft);
  std::string reasons;
  for (const CheckResult* result : worst_first(report)) {
    const auto& seen = result->figures.inference;
    table.add_row(
        {std::string(name_of(result->verdict)) + (result->check.warn_only ? " (warn)" : ""),
         result->name, std::to_string(result->figures.n), seen ? text_of(seen->delta) : "-",
         interval_of(*result), text_of(result->rule.margin),
         seen ? text_of(result->p_adjusted) : "-"});
    if (result->verdict != Verdict::kPass || result->history.alarm) {
      reasons += result->name + ": " + result->reason + ".\n";
    }
    if (const auto& change = result->history.change; change && change->p <= report.alpha) {
      reasons += result->name + ": the level changed " +
                 std::to_string(std::size_t(result->history.nights) - change->first_after) +
                 " nights ago, from " + text_of(change->before) + " to " + text_of(change->after) +
                 " (p " + text_of(change->p) + ").\n";
    }
  }
  return table.text() + "+ is better; bounds are one-sided, each at 1 - " + text_of(report.alpha) +
         "; p is corrected over all checks.\n" + reasons + "Gate " + report.name + ": " +
         std::string(name_of(report.verdict)) + ".\n";
}

std::string gate_junit(const GateReport& report) {
  const auto count = [&](Verdict verdict) {
    return std::to_string(std::ranges::count(report.results, verdict, &CheckResult::verdict));
  };
  const std::string name = escaped_xml(report.name);
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"" +
                    name + "\" tests=\"" + std::to_string(report.results.size()) +
                    "\" failures=\"" + count(Verdict::kFail) + "\" errors=\"" +
                    count(Verdict::kError) + "\" skipped=\"" + count(Verdict::kInconclusive) +
                    "\">\n";
  for (const CheckResult& result : report.results) {
    xml += "<testcase classname=\"" + name + "\" name=\"" + escaped_xml(result.name) + "\">";
    const std::string message = " message=\"" + escaped_xml(result.reason) + "\"/>";
    if (result.verdict == Verdict::kFail) xml += "<failure" + message;
    if (result.verdict == Verdict::kError) xml += "<error" + message;
    if (result.verdict == Verdict::kInconclusive) xml += "<skipped" + message;
    xml += "<system-out>" + escaped_xml(figures_line(result)) + "</system-out></testcase>\n";
  }
  return xml + "</testsuite>\n</testsuites>\n";
}

std::string gate_markdown(const GateReport& report, std::size_t max_bytes) {
  std::string text = "### Gate " + escaped_markdown(report.name) + ": " +
                     std::string(name_of(report.verdict)) +
                     "\n\n| verdict | check | difference (bounds) | margin | pairs | why |\n"
                     "|---|---|---|---|---|---|\n";
  std::size_t left_out = 0;
  for (const CheckResult* result : worst_first(report)) {
    const auto& seen = result->figures.inference;
    const std::string row =
        "| " + std::string(name_of(result->verdict)) + " | " + escaped_markdown(result->name) +
        " | " + (seen ? text_of(seen->delta) + " (" + interval_of(*result) + ")" : "-") + " | " +
        text_of(result->rule.margin) + " | " + std::to_string(result->figures.n) + " | " +
        escaped_markdown(result->reason) + " |\n";
    if (left_out > 0 || text.size() + row.size() + 100 > max_bytes) {
      ++left_out;
    } else {
      text += row;
    }
  }
  if (left_out > 0) text += "\n" + std::to_string(left_out) + " more checks are left out here.\n";
  return text;
}

std::string gate_annotations(const GateReport& report) {
  std::string errors;
  std::string warnings;
  int n_errors = 0;
  int n_warnings = 0;
  for (const CheckResult* result : worst_first(report)) {
    if (result->verdict == Verdict::kPass) continue;
    const bool warns = result->check.warn_only || result->verdict == Verdict::kInconclusive;
    int& n = warns ? n_warnings : n_errors;
    if (++n > kAnnotationsOfAKind) continue;
    (warns ? warnings : errors) += std::string(warns ? "::warning" : "::error") +
                                   " title=" + escaped_command(result->name, true) +
                                   "::" + escaped_command(result->reason, false) + "\n";
  }
  return errors + warnings;
}

}  // namespace kvscope
