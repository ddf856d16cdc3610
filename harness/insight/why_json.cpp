#include <algorithm>
#include <cmath>

#include "harness/insight/why_report.h"

namespace kvscope {
namespace {

Json answer_of(const ExplainedAnswer& answer) {
  return {{"text", answer.text},
          {"ids", answer.ids},
          {"right", answer.is_right},
          {"gold_nll_nats", json_number(answer.gold_nll_nats)},
          {"kv_bytes", answer.kv_bytes}};
}

Json tokens_json(std::span<const MissedToken> tokens, const TokenNames& names) {
  Json rows = Json::array();
  for (const MissedToken& token : tokens) {
    rows.push_back({{"position", token.position},
                    {"text", names(token.position)},
                    {"mass", json_number(token.mass)},
                    {"missing_in", token.n_missing},
                    {"layer", token.layer},
                    {"kv_head", token.kv_head},
                    {"heaviest", json_number(token.heaviest)},
                    {"evicted_at", token.evicted_at ? Json(*token.evicted_at) : Json()},
                    {"is_evidence", token.is_evidence}});
  }
  return rows;
}

Json top_json(const TopTokens& top, const TokenNames& names) {
  return {{"frame", name_of(top.frame)},
          {"n_evidence", top.n_evidence},
          {"tokens", tokens_json(top.tokens, names)}};
}

}  // namespace

std::string TokenNames::operator()(std::int32_t position) const {
  if (position < 0 || position >= std::ssize(ids)) return {};
  return tokenizer.decode(ids.subspan(std::size_t(position), 1));
}

Json answer_json(const AnswerReport& report, const TokenNames& names) {
  Json out = {{"sample", report.sample_key}, {"gold", report.gold}, {"error", report.error}};
  if (!report.error.empty()) return out;
  out["full"] = answer_of(report.full);
  out["arm"] = answer_of(report.arm);
  out["prompt_tokens"] = report.prompt_tokens;
  out["divergence"] = report.divergence < 0 ? Json() : Json(report.divergence);
  out["divergence_step"] =
      report.divergence < 0 ? Json() : Json(report.fed_tokens - 1 + report.divergence);
  out["kl_full_nats"] = json_numbers(std::span(report.kl_nats));
  out["delta_nll_nats"] = json_numbers(std::span(report.delta_nll_nats));
  out["rows"] = {{"first", report.first_row}, {"last", report.last_row}};
  out["evidence"] = Json();
  if (report.evidence_begin >= 0) {
    out["evidence"] = {{"begin", report.evidence_begin}, {"end", report.evidence_end}};
    if (report.survival) {
      out["evidence"]["survival_after_cut"] = report.survival->after_cut;
      out["evidence"]["survival_at_end"] = report.survival->at_end;
      out["evidence"]["by_layer_after_cut"] = report.survival->by_layer_after_cut;
      out["evidence"]["by_layer_at_end"] = report.survival->by_layer_at_end;
    }
  }
  out["missed"] = Json::array();
  for (const TopTokens& top : report.tops) out["missed"].push_back(top_json(top, names));
  out["restorations"] = Json::array();
  for (const Trial& trial : report.trials) {
    Json row = {{"what", trial.what},
                {"seed", trial.what == "random" ? Json(trial.seed) : Json()},
                {"positions", trial.positions},
                {"n_evidence", trial.n_evidence},
                {"error", trial.error}};
    if (trial.error.empty()) {
      row["answer"] = answer_of(trial.answer);
      row["is_full_answer"] = trial.is_full_answer;
      row["more_kv_bytes"] = trial.answer.kv_bytes - report.arm.kv_bytes;
    }
    out["restorations"].push_back(std::move(row));
  }
  return out;
}

Json window_json(const WindowReport& report, const TokenNames& names) {
  Json out = {{"sample", report.sample_key}, {"error", report.error}};
  if (!report.error.empty()) return out;
  out["in_stream"] = report.in_stream;
  out["full_nll_nats"] = json_number(report.full_nll_nats);
  out["arm_nll_nats"] = json_number(report.arm_nll_nats);
  out["full_worst_nll_nats"] = json_number(report.full_worst_nll_nats);
  out["arm_worst_nll_nats"] = json_number(report.arm_worst_nll_nats);
  out["worst"] = Json::array();
  for (const WorstToken& token : report.worst) {
    out["worst"].push_back({{"position", token.position},
                            {"text", names(token.position)},
                            {"full_nll_nats", json_number(token.full_nll_nats)},
                            {"arm_nll_nats", json_number(token.arm_nll_nats)},
                            {"kl_full_nats", json_number(token.kl_nats)}});
  }
  out["missed"] = Json::array({top_json(report.top, names)});
  out["restorations"] = Json::array();
  for (const WindowTrial& trial : report.trials) {
    out["restorations"].push_back(
        {{"what", trial.what},
         {"seed", trial.what == "random" ? Json(trial.seed) : Json()},
         {"positions", trial.positions},
         {"error", trial.error},
         {"nll_nats", json_number(trial.nll_nats)},
         {"worst_nll_nats", json_number(trial.worst_nll_nats)},
         {"recovered", json_number(report.recovered(trial))},
         {"recovered_of_worst", json_number(report.recovered_of_worst(trial))},
         {"more_kv_bytes", trial.kv_bytes - report.arm_kv_bytes}});
  }
  return out;
}

Json planted_json(const PlantedResult& result) {
  Json out = {{"samples", result.n_samples},
              {"full_right", result.n_full_right},
              {"failures", result.n_failures},
              {"frames", Json::array()},
              {"evidence_repaired", result.n_evidence_repaired},
              {"random_trials", result.n_random},
              {"random_repaired", result.n_random_repaired}};
  for (const FrameResult& frame : result.frames) {
    out["frames"].push_back({{"frame", name_of(frame.frame)},
                             {"failures", frame.n},
                             {"needle_named", frame.n_named},
                             {"needle_touched", frame.n_any},
                             {"repaired", frame.n_repaired}});
  }
  return out;
}

}  // namespace kvscope
