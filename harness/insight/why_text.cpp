#include <algorithm>
#include <array>
#include <cmath>

#include "harness/insight/why_report.h"
#include "harness/report/table.h"

namespace kvscope {
namespace {

// So that spaces and line ends of tokens show.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string ratio(int part, int all) {
  return std::to_string(part) + " of " + std::to_string(all) +
         (all > 0 ? " (" + format_percent(double(part) / all, 0) + ")" : "");
}

std::string numbers(std::span<const float> values) {
  std::string text;
  for (const float value : values) text.append(" ").append(format_significant(double(value), 3));
  return text;
}

std::string answer_line(const std::string& who, const ExplainedAnswer& answer) {
  return who + quoted(answer.text) + (answer.is_right ? "  right" : "  wrong") + ", gold NLL " +
         format_significant(answer.gold_nll_nats, 3) + " nats, " + format_bytes(answer.kv_bytes) +
         "\n";
}

std::string missed_text(const TopTokens& top, const TokenNames& names, bool has_evidence) {
  std::string text = top.frame == Frame::kLocal ? "local frame: the arm's own queries"
                                                : "paired frame: the full cache's queries";
  if (has_evidence) text += "; " + std::to_string(top.n_evidence) + " of them are the evidence's";
  text += ")\n";
  Table table({"position", "token", "mass", "heaviest", "there", "missing in", "evicted after",
               "evidence"});
  table.align(1, Table::Align::kLeft).align(4, Table::Align::kLeft);
  table.align(7, Table::Align::kLeft);
  for (const MissedToken& token : top.tokens) {
    table.add_row(
        {std::to_string(token.position), quoted(names(token.position)),
         format_significant(token.mass, 3), format_percent(token.heaviest, 1),
         "layer " + std::to_string(token.layer) + " head " + std::to_string(token.kv_head),
         std::to_string(token.n_missing),
         token.evicted_at ? std::to_string(*token.evicted_at) : "-",
         token.is_evidence ? "yes" : ""});
  }
  return text + table.text();
}

std::string trial_name(const std::string& what, std::uint64_t seed) {
  if (what == "random") return "random, seed " + std::to_string(seed);
  return what == "evidence" ? "the evidence" : "heaviest, " + what;
}

}  // namespace

std::string sparkline(std::span<const double> values) {
  static constexpr std::array kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double most = 0.0;
  for (const double value : values) most = std::isfinite(value) ? std::max(most, value) : most;
  std::string text;
  for (const double value : values) {
    const double share = most > 0 && std::isfinite(value) ? std::max(0.0, value) / most : 0.0;
    text += kBlocks[std::min<std::size_t>(7, std::size_t(share * 8))];
  }
  return text;
}

std::string answer_report_text(const AnswerReport& report, const TokenNames& names,
                               const Tokenizer& tokenizer) {
  std::string text = "gold: " + quoted(report.gold) + "\n";
  if (!report.error.empty()) return text + "could not run: " + report.error + "\n";
  text += answer_line("full: ", report.full) + answer_line("arm:  ", report.arm);
  const auto token = [&](const std::vector<std::int32_t>& ids, int i) {
    return i < std::ssize(ids) ? quoted(tokenizer.decode(std::span(ids).subspan(i, 1)))
                               : std::string("the end");
  };
  if (report.divergence < 0) {
    text += "The two answers are the same tokens.\n";
  } else {
    text += "First difference: answer token " + std::to_string(report.divergence + 1) + ", step " +
            std::to_string(report.fed_tokens - 1 + report.divergence) + " after the prompt: full " +
            token(report.full.ids, report.divergence) + ", arm " +
            token(report.arm.ids, report.divergence) + "\n";
  }
  const std::vector<double> kl(report.kl_nats.begin(), report.kl_nats.end());
  text +=
      "KL from full along full's answer, nats:  " + sparkline(kl) + numbers(report.kl_nats) + "\n";
  if (report.survival) {
    text += "Evidence (tokens " + std::to_string(report.evidence_begin) + " to " +
            std::to_string(report.evidence_end - 1) +
            "): " + format_percent(report.survival->after_cut, 1) +
            " of its keys and values are cached after the selection, " +
            format_percent(report.survival->at_end, 1) + " at the end; by layer " +
            sparkline(report.survival->by_layer_at_end) + "\n";
  }
  for (const TopTokens& top : report.tops) {
    if (top.tokens.empty()) return text + "\nNothing was evicted.\n";
    text += "\nEvicted tokens that rows " + std::to_string(report.first_row) + " to " +
            std::to_string(report.last_row) + " would have looked at most (" +
            missed_text(top, names, report.evidence_begin >= 0);
  }
  if (report.trials.empty()) return text;
  text += "\nPut back in every layer and KV head that lacked them, and run again:\n";
  Table table({"what", "tokens", "evidence", "answer", "right", "as full", "gold NLL", "more KV"});
  for (const std::size_t column : {3, 4, 5}) table.align(column, Table::Align::kLeft);
  for (const Trial& trial : report.trials) {
    const bool ran = trial.error.empty();
    table.add_row({trial_name(trial.what, trial.seed), std::to_string(trial.positions.size()),
                   std::to_string(trial.n_evidence), ran ? quoted(trial.answer.text) : trial.error,
                   ran ? (trial.answer.is_right ? "yes" : "no") : "-",
                   ran ? (trial.is_full_answer ? "yes" : "no") : "-",
                   ran ? format_significant(trial.answer.gold_nll_nats, 3) : "-",
                   ran ? format_bytes(trial.answer.kv_bytes - report.arm.kv_bytes) : "-"});
  }
  return text + table.text();
}

std::string window_report_text(const WindowReport& report, const TokenNames& names) {
  if (!report.error.empty()) return "could not run: " + report.error + "\n";
  std::string text = "NLL, nats a token: full " + format_significant(report.full_nll_nats, 5) +
                     ", arm " + format_significant(report.arm_nll_nats, 5) + "; on the " +
                     std::to_string(report.worst.size()) + " worst: full " +
                     format_significant(report.full_worst_nll_nats, 4) + ", arm " +
                     format_significant(report.arm_worst_nll_nats, 4) +
                     "\n\nTokens that the arm predicts worst beside full:\n";
  Table worst({"position", "token", "full NLL", "arm NLL", "KL from full"});
  worst.align(1, Table::Align::kLeft);
  for (const WorstToken& token : report.worst) {
    worst.add_row({std::to_string(token.position), quoted(names(token.position)),
                   format_significant(token.full_nll_nats, 4),
                   format_significant(token.arm_nll_nats, 4),
                   format_significant(token.kl_nats, 3)});
  }
  text += worst.text() + "\nEvicted tokens that the rows before these would have looked at most (" +
          missed_text(report.top, names, false) +
          (report.in_stream ? "\nKept from leaving in every layer and KV head, and run again:\n"
                            : "\nPut back in every layer and KV head, and run again:\n");
  Table table({"what", "tokens", "NLL", "recovered", "NLL of the worst", "recovered", "more KV"});
  for (const WindowTrial& trial : report.trials) {
    const std::string name = trial_name(trial.what, trial.seed);
    if (!trial.error.empty()) {
      table.add_row({name + ": " + trial.error, "-", "-", "-", "-", "-", "-"});
      continue;
    }
    table.add_row(
        {name, std::to_string(trial.positions.size()), format_significant(trial.nll_nats, 5),
         format_percent(report.recovered(trial), 1), format_significant(trial.worst_nll_nats, 4),
         format_percent(report.recovered_of_worst(trial), 1),
         format_bytes(trial.kv_bytes - report.arm_kv_bytes)});
  }
  return text + table.text();
}

std::string planted_text(const PlantedResult& result) {
  std::string text = std::to_string(result.n_samples) + " samples, full right in " +
                     std::to_string(result.n_full_right) + "; " +
                     std::to_string(result.n_failures) +
                     " planted failures: the arm has evicted the needle and is wrong\n\n";
  Table table({"heaviest missed tokens", "needle named", "needle touched", "repaired"});
  for (const FrameResult& frame : result.frames) {
    table.add_row({std::string(name_of(frame.frame)) + " frame", ratio(frame.n_named, frame.n),
                   ratio(frame.n_any, frame.n), ratio(frame.n_repaired, frame.n)});
  }
  table.add_row(
      {"the needle itself", "-", "-", ratio(result.n_evidence_repaired, result.n_failures)});
  table.add_row({"random tokens", "-", "-", ratio(result.n_random_repaired, result.n_random)});
  return text + table.text() +
         "\nnamed: at least half of the needle's tokens are among as many heaviest ones; touched: "
         "one is.\n";
}

}  // namespace kvscope
