#include "harness/insight/explain_window.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "datasets/base/random.h"
#include "harness/tasks/outcome.h"
#include "harness/tasks/perplexity.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

using Positions = std::vector<std::int32_t>;

class Explainer {
 public:
  Explainer(const ExplainRequest& request, const TextWindow& window)
      : request_(request), model_(request.engine.model().config), window_(window) {
    report_.sample_key = window.key;
  }

  std::optional<WindowReport> run() {
    if (!prepare()) return report_;
    if (!score_both()) return std::nullopt;
    if (!report_.error.empty()) return report_;
    if (!weigh() || !restore()) return std::nullopt;
    return report_;
  }

 private:
  int half() const { return int(window_.ids.size()) / 2; }

  bool prepare() {
    if (request_.arm.question == QuestionVisibility::kHidden) {
      report_.error = "a text has no question to hide";
      return false;
    }
    const PolicySpec spec = as_run_in_stream(request_.arm.policy);
    report_.in_stream = spec.acts_in_stream();
    const TaskRun run{request_.engine, request_.tokenizer, {}, ProbeLevel::kAll, false, {}};
    arm_ = fit_arm(run, {spec, request_.arm.budget, request_.arm.question},
                   {request_.arm.budget, half(), report_.in_stream}, half());
    if (!arm_.policy) report_.error = arm_.skipped.error;
    return report_.error.empty();
  }

  std::optional<std::vector<ScoreArmResult>> score(std::span<const ScoreArm> arms,
                                                   bool compare_full) {
    ScoreRequest request;
    request.tokens = window_.ids;
    request.prompt_tokens = half();
    request.first_scored = window_.first_scored;
    request.compare_full = compare_full;
    request.want_residents = true;
    return request_.engine.score(request, arms, request_.stop);
  }

  double mean_nll(const ScoreArmResult& result) const {
    double sum = 0.0;
    for (std::size_t t = window_.first_scored; t < window_.ids.size(); ++t)
      sum += result.nll_nats[t];
    return sum / double(window_.ids.size() - window_.first_scored);
  }
  double mean_worst_nll(const ScoreArmResult& result) const {
    double sum = 0.0;
    for (const WorstToken& token : report_.worst) sum += result.nll_nats[token.position];
    return sum / double(report_.worst.size());
  }

  bool score_both() {
    const auto full =
        fit_policy(parse_policy("full"), {{.permille = 1000, .tokens = {}}, half(), true});
    const std::vector arms{ScoreArm{full, nullptr, true},
                           ScoreArm{arm_.policy, nullptr, report_.in_stream}};
    auto results = score(arms, true);
    if (!results) return false;
    for (const ScoreArmResult& result : *results) {
      if (report_.error.empty()) report_.error = result.error;
    }
    if (!report_.error.empty()) return true;
    const ScoreArmResult& own = (*results)[1];
    for (int t = window_.first_scored; t < int(window_.ids.size()); ++t) {
      report_.worst.push_back({t, window_.ids[t], (*results)[0].nll_nats[t], own.nll_nats[t],
                               double(own.kl_full_nats[t - 1])});
    }
    std::ranges::stable_sort(report_.worst, std::greater<>(), [](const WorstToken& token) {
      return token.arm_nll_nats - token.full_nll_nats;
    });
    report_.worst.resize(std::min<std::size_t>(report_.worst.size(), kWorstTokens));
    report_.full_nll_nats = mean_nll((*results)[0]);
    report_.arm_nll_nats = mean_nll(own);
    report_.full_worst_nll_nats = mean_worst_nll((*results)[0]);
    report_.arm_worst_nll_nats = mean_worst_nll(own);
    report_.full_kv_bytes = (*results)[0].ledger.steady.total_bytes();
    report_.arm_kv_bytes = own.ledger.steady.total_bytes();
    residents_ = own.resident_positions;
    return true;
  }

  // The rows that predict the worst tokens.
  bool weigh() {
    std::vector<int> rows;
    for (const WorstToken& token : report_.worst) rows.push_back(token.position - 1);
    std::ranges::sort(rows);
    MassLog log({model_.n_layers, model_.n_kv_heads, model_.group()}, rows);
    report_.top.frame = arm_.probe ? Frame::kLocal : Frame::kPaired;
    std::vector<ScoreArm> arms;
    if (arm_.probe) {
      arms.push_back({arm_.policy, &log, report_.in_stream});
    } else {  // what keeps everything, but may be watched, has the full arm's bits
      const Budget everything{.permille = {}, .tokens = int(window_.ids.size()) + 1};
      arms.push_back(
          {fit_policy(parse_policy("sliding_window"), {everything, half(), true}), &log, true});
    }
    if (!score(arms, false)) return false;
    const MissedRequest missed{
        model_.n_layers, model_.n_kv_heads, int(window_.ids.size()), residents_, -1, -1};
    report_.top.tokens = missed_tokens(report_.top.frame, missed, log, arm_.probe ? &log : nullptr);
    for (const MissedToken& token : report_.top.tokens) missed_.push_back(token.position);
    const int n = request_.options.top > 0 ? request_.options.top : ExplainOptions::kTopTokens;
    report_.top.tokens.resize(std::min(report_.top.tokens.size(), std::size_t(n)));
    return true;
  }

  bool restore() {
    Positions top;
    for (const MissedToken& token : report_.top.tokens) top.push_back(token.position);
    if (top.empty()) return true;
    Positions others = missed_;
    std::erase_if(others, [&](std::int32_t position) {
      return std::ranges::find(top, position) != top.end();
    });
    std::ranges::sort(others);
    const std::size_t n = top.size();
    std::ranges::sort(top);
    report_.trials.push_back({std::string(name_of(report_.top.frame)), 0, std::move(top)});
    for (int k = 0; k < request_.options.n_controls; ++k) {
      const std::uint64_t seed = request_.options.seed + std::uint64_t(k);
      Positions drawn = others;
      Random(seed, "restoration " + window_.key).shuffle(drawn);
      drawn.resize(std::min(drawn.size(), n));
      std::ranges::sort(drawn);
      report_.trials.push_back({"random", seed, std::move(drawn)});
    }
    std::vector<ScoreArm> arms;
    for (WindowTrial& trial : report_.trials) {
      Restoration restoration =
          restore_everywhere(trial.positions, model_.n_layers, model_.n_kv_heads);
      restoration.room = request_.options.room;
      try {
        arms.push_back(
            {restore_tokens(arm_.policy, std::move(restoration)), nullptr, report_.in_stream});
      } catch (const DoesNotFit& error) {
        trial.error = error.what();
      }
    }
    if (arms.empty()) return true;
    const auto results = score(arms, false);
    if (!results) return false;
    std::size_t next = 0;
    for (WindowTrial& trial : report_.trials) {
      if (!trial.error.empty()) continue;
      const ScoreArmResult& result = (*results)[next++];
      trial.error = result.error;
      if (!trial.error.empty()) continue;
      trial.nll_nats = mean_nll(result);
      trial.worst_nll_nats = mean_worst_nll(result);
      trial.kv_bytes = result.ledger.steady.total_bytes();
    }
    return true;
  }

  const ExplainRequest& request_;
  const ModelConfig& model_;
  const TextWindow& window_;
  FittedArm arm_;
  std::vector<Positions> residents_;
  Positions missed_;
  WindowReport report_;
};

double share_of(double loss, double rest) { return loss > 0 ? 1.0 - rest / loss : std::nan(""); }

}  // namespace

double WindowReport::recovered(const WindowTrial& trial) const {
  return share_of(arm_nll_nats - full_nll_nats, trial.nll_nats - full_nll_nats);
}

double WindowReport::recovered_of_worst(const WindowTrial& trial) const {
  return share_of(arm_worst_nll_nats - full_worst_nll_nats,
                  trial.worst_nll_nats - full_worst_nll_nats);
}

std::optional<WindowReport> explain_window(const ExplainRequest& request,
                                           const TextWindow& window) {
  return Explainer(request, window).run();
}

}  // namespace kvscope
