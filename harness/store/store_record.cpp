// Writing one finished (arm, sample).
#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/store/database.h"
#include "harness/store/memory_kinds.h"
#include "harness/store/metric_info.h"
#include "harness/store/sketches.h"
#include "harness/store/statement.h"
#include "harness/store/store.h"
#include "harness/store/transaction.h"
#include "metrics/probes/step_bins.h"
#include "runner/base/error.h"
#include "runner/base/sha256.h"

namespace kvscope {
namespace {

// Blobs are little-endian on disk; this program only runs on machines that are.
static_assert(std::endian::native == std::endian::little);

std::optional<std::string> or_null(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// Token ids may end inside a character; JSON readers and other programs want valid UTF-8.
std::string valid_utf8(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

class OutcomeWriter {
 public:
  OutcomeWriter(Database& database, std::int64_t arm_id, std::int64_t sample_id)
      : database_(database), arm_id_(arm_id), sample_id_(sample_id) {}

  void result(std::int64_t run_id, const SampleOutcome& o) {
    const auto now =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::optional<std::string> output_hash;
    if (o.has_output) output_hash = sha256_hex(std::as_bytes(std::span(o.output_ids)));
    const Ledger& l = o.ledger;
    Statement(
        database_,
        "INSERT INTO sample_result VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        .bind(arm_id_, sample_id_, run_id, name_of(o.status), or_null(o.error_kind),
              or_null(o.error), or_null(o.mode_run), nlohmann::json(o.fitted_params).dump(),
              o.n_prompt_tokens, o.n_decode_steps, now, o.duration_seconds, o.prefill_seconds,
              o.decode_seconds_per_step, l.prefill_peak.logical_bytes,
              l.prefill_peak.physical_bytes, l.prefill_peak.metadata_bytes,
              l.decode_peak.logical_bytes, l.decode_peak.physical_bytes,
              l.decode_peak.metadata_bytes, l.steady.logical_bytes, l.steady.physical_bytes,
              l.steady.metadata_bytes, l.ghost_peak_bytes, l.peak_resident_tokens,
              l.peak_visible_tokens, l.evicted_tokens, output_hash)
        .run();
  }

  void kept_sets(const KeptSets& k) {
    const auto finding = k.finding ? std::optional(std::string(name_of(*k.finding))) : std::nullopt;
    Statement(database_, "INSERT INTO kept_sets VALUES(?,?,?,?,?,?,?,?)")
        .bind(arm_id_, sample_id_, k.kept_sets_hash, k.budget_tokens, k.offered_tokens,
              k.kept_tokens, k.final_tokens, finding)
        .run();
  }

  void metrics(const SampleOutcome& o) {
    Statement insert(database_,
                     "INSERT INTO sample_metric(arm_id,sample_id,metric_id,value) VALUES(?,?,?,?)");
    for (const auto& [name, value] : o.metrics) {
      insert.bind(arm_id_, sample_id_, metric_id(name), value).run();
    }
  }

  void by_layer_and_step(const SampleOutcome& o) {
    if (o.probes) {
      for (const NamedProbe& probe : named_probes(*o.probes)) {
        bins(probe.metric, probe.values.by_layer, probe.values.by_step_bin);
      }
    }
    for (const BinnedMetric& binned : o.binned)
      bins(binned.metric, binned.by_layer, binned.by_step_bin);
  }

  void bins(const std::string& name, std::span<const RunningStat> by_layer,
            std::span<const RunningStat> by_step_bin) {
    const std::int64_t metric = metric_id(name);
    Statement layer(database_, "INSERT INTO layer_stat VALUES(?,?,?,?,?,?,?,?,?)");
    for (std::size_t l = 0; l < by_layer.size(); ++l) {
      const RunningStat& s = by_layer[l];
      if (s.n == 0) continue;
      layer.bind(arm_id_, sample_id_, metric, std::int64_t(l), s.n, s.mean, s.m2, s.min, s.max)
          .run();
    }
    Statement step(database_, "INSERT INTO step_stat VALUES(?,?,?,?,?,?,?,?,?,?)");
    for (std::size_t b = 0; b < by_step_bin.size(); ++b) {
      const RunningStat& s = by_step_bin[b];
      const StepRange range = step_range(int(b));
      if (s.n == 0) continue;
      step.bind(arm_id_, sample_id_, metric, range.low, range.high, s.n, s.mean, s.m2, s.min, s.max)
          .run();
    }
  }

  void blobs(const SampleOutcome& o) {
    if (o.has_output) {
      Statement(database_,
                "INSERT INTO sample_output(arm_id,sample_id,text,token_ids,gold) VALUES(?,?,?,?,?)")
          .bind(arm_id_, sample_id_, valid_utf8(o.output_text),
                std::as_bytes(std::span(o.output_ids)), valid_utf8(o.gold_text))
          .run();
    }
    if (!o.trace_nll_nats.empty()) {
      std::optional<std::span<const std::byte>> kl;
      if (!o.trace_kl_nats.empty()) kl = std::as_bytes(std::span(o.trace_kl_nats));
      Statement(database_,
                "INSERT INTO token_trace(arm_id,sample_id,first_position,n_tokens,nll_nats,"
                "kl_full_nats) VALUES(?,?,?,?,?,?)")
          .bind(arm_id_, sample_id_, o.trace_first_position,
                static_cast<std::int64_t>(o.trace_nll_nats.size()),
                std::as_bytes(std::span(o.trace_nll_nats)), kl)
          .run();
    }
  }

  void traces(const SampleOutcome& o) {
    Statement event(database_, "INSERT INTO rebound_event VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (std::size_t i = 0; i < o.events.size(); ++i) {
      const ReboundEvent& e = o.events[i].event;
      event
          .bind(arm_id_, sample_id_, std::int64_t(i), e.layer, e.kv_head, e.position,
                valid_utf8(o.events[i].token), e.evicted_at, e.rebound_at, e.step, double(e.mass),
                e.rank, e.is_wrongful, o.events[i].kl_full_nats)
          .run();
    }
    Statement evidence(database_,
                       "INSERT INTO evidence_trace(arm_id,sample_id,rows_fed,n_tokens,alive) "
                       "VALUES(?,?,?,?,?)");
    for (const EvidenceTrace& trace : o.evidence) {
      evidence
          .bind(arm_id_, sample_id_, trace.rows_fed, trace.n_tokens,
                std::as_bytes(std::span(trace.alive)))
          .run();
    }
  }

  // What differs between the stored row and `o`; empty if they agree. Durations may differ.
  std::string difference(const SampleOutcome& o) {
    Statement row(database_,
                  "SELECT status,mode_run,output_sha256 FROM sample_result WHERE arm_id=? AND "
                  "sample_id=?");
    row.bind(arm_id_, sample_id_).step();
    if (row.text(0) != name_of(o.status)) return "status";
    if (row.text(1) != o.mode_run) return "mode";
    if (o.has_output && row.text(2) != sha256_hex(std::as_bytes(std::span(o.output_ids)))) {
      return "output";
    }
    Statement stored(database_,
                     "SELECT name,value FROM sample_metric JOIN metric USING(metric_id) WHERE "
                     "arm_id=? AND sample_id=?");
    stored.bind(arm_id_, sample_id_);
    std::size_t n_stored = 0;
    while (stored.step()) {
      ++n_stored;
      if (o.metric(stored.text(0)) != stored.real(1)) return stored.text(0);
    }
    if (n_stored != o.metrics.size()) return "set of metrics";
    return trace_difference(o);
  }

 private:
  std::string trace_difference(const SampleOutcome& o) {
    Statement trace(database_,
                    "SELECT nll_nats,kl_full_nats FROM token_trace WHERE arm_id=? AND sample_id=?");
    trace.bind(arm_id_, sample_id_);
    if (trace.step() != !o.trace_nll_nats.empty()) return "token trace";
    if (o.trace_nll_nats.empty()) return {};
    const auto agrees = [&](int column, const std::vector<float>& values) {
      if (trace.is_null(column) != values.empty()) return false;
      return values.empty() ||
             std::ranges::equal(trace.blob(column), std::as_bytes(std::span(values)));
    };
    if (agrees(0, o.trace_nll_nats) && agrees(1, o.trace_kl_nats)) return {};
    return "token trace";
  }

  std::int64_t metric_id(const std::string& name) {
    auto [it, fresh] = ids_.try_emplace(name, 0);
    if (fresh) {
      Statement find(database_, "SELECT metric_id FROM metric WHERE name=?");
      if (!find.bind(name).step())
        throw std::logic_error("metric " + name + " is not in the table");
      it->second = find.int64(0);
    }
    return it->second;
  }

  Database& database_;
  std::int64_t arm_id_;
  std::int64_t sample_id_;
  std::map<std::string, std::int64_t> ids_;
};

}  // namespace

void Store::record(std::int64_t run_id, std::int64_t arm_id, std::int64_t sample_id,
                   const SampleOutcome& given) {
  const SampleOutcome outcome = refuse_nonfinite(given);
  Transaction transaction(*database_);
  OutcomeWriter writer(*database_, arm_id, sample_id);
  if (finished(arm_id, sample_id)) {
    const std::string what = writer.difference(outcome);
    if (what.empty()) return;
    throw DataError("database " + file_.string() + ": arm " + std::to_string(arm_id) + ", sample " +
                    std::to_string(sample_id) + ": a second run gave another " + what +
                    "; results of different programs or machines must not mix: use --new or "
                    "another file by --db");
  }
  writer.result(run_id, outcome);
  if (outcome.kept_sets) writer.kept_sets(*outcome.kept_sets);
  writer.metrics(outcome);
  writer.by_layer_and_step(outcome);
  writer.blobs(outcome);
  record_sketches(*database_, arm_id, sample_id, outcome);
  if (outcome.status == OutcomeStatus::kOk) {
    record_kinds(*database_, arm_id, sample_id, outcome.ledger.by_kind);
  }
  writer.traces(outcome);
  heartbeat(run_id);
  transaction.commit();
}

}  // namespace kvscope
