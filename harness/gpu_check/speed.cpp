#include "harness/gpu_check/speed.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/gpu_check/attention_speed.h"
#include "harness/gpu_check/check_model.h"
#include "harness/gpu_check/sweep_speed.h"
#include "harness/report/table.h"
#include "runner/backend/metered_backend.h"
#include "runner/base/error.h"
#include "runner/engine/stage_profile.h"
#include "runner/model/model_bytes.h"
#include "runner/policies/spec.h"

namespace kvscope {
namespace {

constexpr double kDecodeGoal = 0.8;    // of the device's copy
constexpr double kPrefillGoal = 0.25;  // of its bf16 product
constexpr double kSweepGoal = 2.0;     // times the full arm alone
constexpr double kLargeRead = 256e6;   // bytes from which on a call counts as large
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

class Measurement {
 public:
  Measurement(const SpeedWork& work, Backend& backend, const std::optional<CudaLimits>& limits,
              const std::function<void(const std::string&)>& progress)
      : work_(work), backend_(backend), progress_(progress) {
    if (limits) limits_ = *limits;
  }

  SpeedReport run() {
    limits();
    decode_attention();
    large_model();
    few_layers();
    return std::move(report_);
  }

 private:
  SpeedFigure& add(std::string what, double value, std::string unit) {
    return report_.figures.emplace_back(
        SpeedFigure{.what = std::move(what), .value = value, .unit = std::move(unit)});
  }

  void aim(SpeedFigure& figure, Target target, double goal) const {
    if (!work_.has_targets) return;
    figure.target = target;
    figure.goal = goal;
  }

  void limits() {
    add("device copy", limits_.copy_bytes_per_second / 1e9, "GB/s");
    add("device product, bf16", limits_.bf16_flops_per_second / 1e12, "TFLOP/s");
    add("device product, f32", limits_.f32_flops_per_second / 1e12, "TFLOP/s");
  }

  void decode_attention() {
    const ModelConfig& c = work_.config;
    for (const int n : work_.sequences) {
      progress_("decode attention of " + std::to_string(n) + " sequences");
      const AttentionSpeed speed = decode_attention_speed(
          backend_, {c.n_heads, c.n_kv_heads, c.head_dim}, DType::kBF16, n, work_.prompt_tokens);
      const double rate = speed.bytes_per_call / speed.seconds_per_call;
      SpeedFigure& figure = add("decode attention, " + std::to_string(n) + " sequences, " +
                                    format_bytes(std::int64_t(speed.bytes_per_call)) + " a call",
                                rate / 1e9, "GB/s");
      figure.share = rate / limits_.copy_bytes_per_second;
      figure.share_of = "device copy";
      if (speed.bytes_per_call >= kLargeRead) aim(figure, Target::kAtLeast, kDecodeGoal);
    }
  }

  void products(const Model& model, const ProfilePhase& phase, const std::string& when) {
    const bool is_bf16 = model.dtype == DType::kBF16;
    const double limit = is_bf16 ? limits_.bf16_flops_per_second : limits_.f32_flops_per_second;
    for (const StageCounter& stage : phase.stages) {
      if (stage.n_out == 0) continue;
      const double rate = stage.work.flops / stage.seconds;
      SpeedFigure& figure =
          add(stage_name(model, stage) + ", " + std::string(name_of(model.dtype)) + ", " + when,
              rate / 1e12, "TFLOP/s");
      figure.share = rate / limit;
      figure.share_of = "device product";
    }
  }

  static const StageCounter& stage_of(const ProfilePhase& phase, std::string_view stage) {
    return *std::ranges::find(phase.stages, stage, &StageCounter::stage);
  }

  void large_model() {
    progress_("loading " + work_.config.name);
    CheckModel check(work_.config, DType::kBF16, backend_);
    progress_("prefill and decode");
    ProfileOptions options;
    options.prompt_tokens = work_.prompt_tokens;
    options.decode_rows = work_.decode_rows;
    const auto phases = profile_stages(check.model, backend_, options);
    for (const ProfilePhase& phase : phases) {
      const std::string when = (phase.is_prefill ? "prefill of " : "decode of ") +
                               std::to_string(phase.rows) +
                               (phase.is_prefill ? " tokens" : " rows");
      add(when, phase.tokens_per_second(), "tokens/s");
      products(check.model, phase, when);
    }
    const StageCounter& attention = stage_of(phases.front(), "attend_dense");
    const double rate = attention.work.flops / attention.seconds;
    SpeedFigure& figure = add("prefill attention, bf16", rate / 1e12, "TFLOP/s");
    figure.share = rate / limits_.bf16_flops_per_second;
    figure.share_of = "device product";
    aim(figure, Target::kAtLeast, kPrefillGoal);

    progress_("sweep");
    const SweepSpeed sweep = measure_sweep_speed(check, work_);
    report_.memory = sweep.memory;
    add("full alone, prompt and answer", sweep.full_seconds, "s");
    const std::string arms = std::to_string(sweep.n_arms) + " arms beside it";
    SpeedFigure& ratio =
        add(arms + ", answers", sweep.answers_seconds / sweep.full_seconds, "× full alone");
    aim(ratio, Target::kAtMost, kSweepGoal);
    add(arms + ", three rows each", sweep.sweep_seconds / sweep.sweep_full_seconds, "× full alone");
  }

  void few_layers() {
    progress_("loading " + work_.few_layers.name);
    {
      const CheckModel check(work_.few_layers, DType::kF32, backend_);
      ProfileOptions options;
      options.prompt_tokens = work_.few_tokens;
      options.decode_rows = {};
      const auto phases = profile_stages(check.model, backend_, options);
      products(check.model, phases.front(),
               "prefill of " + std::to_string(phases.front().rows) + " tokens");
    }
    progress_("scans");
    const Model model = load_model(RandomWeights(work_.few_layers, kCheckSeed), backend_,
                                   DType::kBF16, DType::kBF16);
    const auto tokens = check_tokens(work_.few_layers, work_.few_tokens, 21);
    for (const char* policy : {"streaming_llm", "h2o", "tova"}) scan(model, tokens, policy);
  }

  // Row after row in stream: what one row of one layer takes.
  void scan(const Model& model, std::span<const std::int32_t> tokens, const char* policy) {
    MeteredBackend metered(backend_);
    Engine engine(model, metered);
    engine.allow_beyond_context(true);
    ScoreRequest request;
    request.tokens = tokens;
    request.first_scored = int(tokens.size()) - 1;  // logits are not what is timed
    FitRequest fit;
    fit.budget.tokens = work_.scan_budget;
    fit.length = int(tokens.size());
    fit.in_stream = true;
    const ScoreArm arm{fit_policy(parse_policy(policy), fit), nullptr, true};
    engine.score(request, std::span(&arm, 1));  // warm-up
    metered.reset();
    const auto results = engine.score(request, std::span(&arm, 1)).value();
    if (!results.front().error.empty())
      throw DataError("bench gpu: scan: " + results.front().error);
    const auto found = std::ranges::find(metered.counters(), "scan", &StageCounter::stage);
    const double rows = double(tokens.size()) * model.config.n_layers;
    add("scan, " + std::string(policy) + " of " + std::to_string(work_.scan_budget) + " tokens",
        found->seconds / rows * 1e6, "µs a row and layer");
  }

  const SpeedWork& work_;
  Backend& backend_;
  const std::function<void(const std::string&)>& progress_;
  CudaLimits limits_{kUnknown, kUnknown, kUnknown};
  SpeedReport report_;
};

std::string target_text(const SpeedFigure& figure) {
  if (figure.target == Target::kNone) return "";
  const std::string goal =
      figure.share ? format_percent(figure.goal, 0) : format_fixed(figure.goal, 1);
  return (figure.target == Target::kAtLeast ? "≥ " : "≤ ") + goal +
         (figure.met() ? ": met" : ": MISSED");
}

}  // namespace

SpeedWork speed_work(std::int64_t free_bytes) {
  SpeedWork work;
  work.few_layers = llama3_8b_shape(2);
  double shares = 1.0;  // of the full arm's cache, all arms together
  for (const int permille : work.permilles)
    shares += permille / 1000.0 * double(work.policies.size());
  for (const int n_layers : {32, 16, 8, 4, 2}) {
    work.config = llama3_8b_shape(n_layers);
    const double cache =
        double(sequence_bytes(work.config, DType::kBF16, work.prompt_tokens)) * shares;
    constexpr double kActivations = 4e9;
    const double all = double(weight_bytes(work.config, DType::kBF16)) + cache + kActivations;
    if (all <= double(free_bytes)) break;
  }
  return work;
}

SpeedWork tiny_speed_work() {
  SpeedWork work;
  work.config = tiny_shape();
  work.few_layers = tiny_shape();
  work.prompt_tokens = 96;
  work.answer_tokens = 4;
  work.decode_rows = {1, 3};
  work.sequences = {2};
  work.few_tokens = 64;
  work.scan_budget = 24;
  work.has_targets = false;
  work.permilles = {300, 600};
  return work;
}

bool SpeedFigure::met() const {
  const double judged = share.value_or(value);
  if (target == Target::kNone) return true;
  return target == Target::kAtLeast ? judged >= goal : judged <= goal;
}

SpeedReport measure_speed(const SpeedWork& work, Backend& backend,
                          const std::optional<CudaLimits>& limits,
                          const std::function<void(const std::string&)>& progress) {
  return Measurement(work, backend, limits, progress).run();
}

std::string speed_text(const SpeedReport& report) {
  Table table({"figure", "value", "unit", "share", "of", "target"});
  for (const std::size_t column : {2, 4, 5}) table.align(column, Table::Align::kLeft);
  for (const SpeedFigure& figure : report.figures) {
    table.add_row({figure.what, format_significant(figure.value, 4), figure.unit,
                   figure.share ? format_percent(*figure.share, 1) : "", figure.share_of,
                   target_text(figure)});
  }
  const MemoryFigures& memory = report.memory;
  std::string text = table.text() + "\nkeys and values of full alone: ledger " +
                     format_bytes(memory.ledger_bytes) + ", pages " +
                     format_bytes(memory.pool_bytes) + (memory.agree() ? " (equal)" : " (DIFFER)") +
                     '\n';
  if (memory.device) {
    text += "device memory, weights included: " + format_bytes(memory.device->allocated_bytes) +
            " held, " + format_bytes(memory.device->peak_bytes) + " at most, " +
            format_bytes(memory.device->driver_delta_bytes) + " by the driver\n";
  }
  return text;
}

Json speed_json(const SpeedReport& report) {
  Json figures = Json::array();
  for (const SpeedFigure& figure : report.figures) {
    Json row = {{"what", figure.what}, {"value", json_number(figure.value)}, {"unit", figure.unit}};
    if (figure.share) {
      row["share"] = json_number(*figure.share);
      row["share_of"] = figure.share_of;
    }
    if (figure.target != Target::kNone) {
      row["target"] = figure.target == Target::kAtLeast ? "at least" : "at most";
      row["goal"] = figure.goal;
      row["met"] = figure.met();
    }
    figures.push_back(std::move(row));
  }
  Json memory = {{"ledger_bytes", report.memory.ledger_bytes},
                 {"pool_bytes", report.memory.pool_bytes},
                 {"agree", report.memory.agree()}};
  if (const auto& device = report.memory.device) {
    memory["device"] = {{"allocated_bytes", device->allocated_bytes},
                        {"peak_bytes", device->peak_bytes},
                        {"driver_delta_bytes", device->driver_delta_bytes}};
  }
  return {{"figures", figures}, {"memory", memory}};
}

}  // namespace kvscope
