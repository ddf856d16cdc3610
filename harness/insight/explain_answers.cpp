#include "harness/insight/explain_answers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "datasets/base/random.h"
#include "datasets/chat/chat_template.h"
#include "harness/tasks/answer_sample.h"
#include "harness/tasks/outcome.h"
#include "runner/policies/registry.h"

namespace kvscope {
namespace {

using Positions = std::vector<std::int32_t>;

// A sample on its way through the three calls.
struct Case {
  const Sample& sample;
  AnswerReport report;
  AnswerTokens tokens;
  FittedArm arm;
  std::shared_ptr<const Policy> full;
  Positions evidence;
  std::vector<Positions> residents;  // of the arm after the cut
  Positions forced_feed;             // tokens.feed and full's answer but its last token
  Positions missed;                  // that some (layer, KV head) lacks
  std::unique_ptr<MassLog> local;
  std::unique_ptr<MassLog> paired;
};

double mean_or_nan(std::span<const float> values) { return mean_of(values).value_or(std::nan("")); }

class Explainer {
 public:
  explicit Explainer(const ExplainRequest& request)
      : request_(request),
        model_(request.engine.model().config),
        stop_token_(chat_for(request.tokenizer).turn_end()) {}

  std::optional<std::vector<AnswerReport>> run(std::span<const Sample* const> samples) {
    for (const Sample* sample : samples) cases_.push_back(prepare(*sample));
    if (!answer() || !weigh() || !restore()) return std::nullopt;
    std::vector<AnswerReport> reports;
    for (Case& one : cases_) reports.push_back(std::move(one.report));
    return reports;
  }

 private:
  Case prepare(const Sample& sample) const {
    Case one{sample, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}};
    one.report.sample_key = sample.key;
    if (!sample.golds.empty()) one.report.gold = sample.golds.front();
    auto tokens = answer_tokens(sample, request_.arm.question);
    if (!tokens) {
      one.report.error = "it is not known which of the prompt's tokens are the question";
      return one;
    }
    one.tokens = std::move(*tokens);
    const int length = int(one.tokens.prompt.size());
    one.report.prompt_tokens = length;
    one.report.fed_tokens = int(one.tokens.feed.size());
    if (sample.evidence_begin >= 0 && sample.evidence_end <= length) {
      one.report.evidence_begin = sample.evidence_begin;
      one.report.evidence_end = sample.evidence_end;
      one.evidence.resize(std::size_t(sample.evidence_end - sample.evidence_begin));
      std::iota(one.evidence.begin(), one.evidence.end(), sample.evidence_begin);
    }
    const TaskRun run{request_.engine, request_.tokenizer, {}, {ProbeLevel::kAll}, false, {}};
    one.arm = fit_arm(run, request_.arm, {request_.arm.budget, length, false},
                      {length, sample.input_sha256});
    if (!one.arm.policy) one.report.error = one.arm.skipped.error;
    one.full = fit_policy(parse_policy("full"), {{.permille = 1000, .tokens = {}}, length, false});
    return one;
  }

  GenerateRequest request_of(const Case& one, std::span<const std::int32_t> feed) const {
    GenerateRequest request;
    request.prompt = one.tokens.prompt;
    request.prefix = feed;
    request.gold = one.sample.gold_ids;
    request.max_new_tokens = one.sample.max_new_tokens;
    request.stop_token = stop_token_;
    return request;
  }

  // Runs one request for each case that has one; done(case, results).
  bool generate(const std::function<std::optional<GenerateRequest>(Case&)>& make,
                const std::function<void(Case&, std::vector<GenerateArmResult>&)>& done) {
    std::vector<GenerateRequest> requests;
    std::vector<Case*> of;
    for (Case& one : cases_) {
      if (!one.report.error.empty()) continue;
      if (auto made = make(one)) {
        requests.push_back(std::move(*made));
        of.push_back(&one);
      }
    }
    if (requests.empty()) return true;
    auto results = request_.engine.generate(requests, request_.stop);
    if (!results) return false;
    for (std::size_t i = 0; i < of.size(); ++i) done(*of[i], (*results)[i]);
    return true;
  }

  ExplainedAnswer explained(const Case& one, const GenerateArmResult& result) const {
    ExplainedAnswer answer;
    answer.ids = result.new_ids;
    answer.text = answer_text(request_.tokenizer, result.new_ids, stop_token_, model_.stop_tokens);
    answer.is_right = is_right(request_.scorer, answer.text, one.sample);
    answer.gold_nll_nats = mean_or_nan(result.gold_nll_nats);
    answer.kv_bytes = steady_bytes(result.ledger);
    return answer;
  }

  bool answer() {
    return generate(
        [&](Case& one) {
          GenerateRequest request = request_of(one, one.tokens.feed);
          request.arms = {{one.full, nullptr}, {one.arm.policy, nullptr}};
          request.forced = true;
          request.want_residents = true;
          request.watched = one.evidence;
          return std::optional(std::move(request));
        },
        [&](Case& one, std::vector<GenerateArmResult>& results) {
          AnswerReport& report = one.report;
          for (const GenerateArmResult& result : results) {
            if (report.error.empty()) report.error = result.error;
          }
          if (!report.error.empty()) return;
          report.full = explained(one, results[0]);
          report.arm = explained(one, results[1]);
          report.kl_nats = results[1].kl_full_nats;
          report.delta_nll_nats = results[1].forced_delta_nll_nats;
          const auto& full = report.full.ids;
          const auto& own = report.arm.ids;
          const auto differ = std::mismatch(full.begin(), full.end(), own.begin(), own.end());
          if (differ.first != full.end() || differ.second != own.end())
            report.divergence = int(differ.first - full.begin());
          one.residents = std::move(results[1].resident_positions);
          if (!one.evidence.empty()) report.survival = survival_of(one, results[1]);
        });
  }

  EvidenceSurvival survival_of(const Case& one, const GenerateArmResult& result) const {
    EvidenceSurvival survival;
    const auto by_layer = [&](const Survival& counted, std::vector<double>& layers) {
      double all = 0.0;
      for (int layer = 0; layer < model_.n_layers; ++layer) {
        double sum = 0.0;
        for (int h = 0; h < model_.n_kv_heads; ++h)
          sum += counted.alive[std::size_t(layer) * model_.n_kv_heads + h];
        layers.push_back(sum / double(model_.n_kv_heads * one.evidence.size()));
        all += layers.back();
      }
      return all / model_.n_layers;
    };
    survival.after_cut = by_layer(result.survival.front(), survival.by_layer_after_cut);
    survival.at_end = by_layer(result.survival.back(), survival.by_layer_at_end);
    return survival;
  }

  // Both frames on the full arm's answer. What keeps everything, but may be watched, has the full
  // arm's bits.
  bool weigh() {
    const auto watched = [&](const AnswerReport& report) {
      return !request_.wanted || request_.wanted(report);
    };
    return generate(
        [&](Case& one) -> std::optional<GenerateRequest> {
          AnswerReport& report = one.report;
          if (!watched(report)) return std::nullopt;
          const auto& full = report.full.ids;
          one.forced_feed = one.tokens.feed;
          one.forced_feed.insert(one.forced_feed.end(), full.begin(), full.end() - 1);
          // The row of the last token before answer token i predicts it.
          const int first_prediction = report.prompt_tokens + report.fed_tokens - 1;
          const int last = int(full.size()) - 1;
          report.last_row = first_prediction + last;
          report.first_row = first_prediction + std::clamp(report.divergence, 0, last);
          const AttentionProbeShape shape{model_.n_layers, model_.n_kv_heads, model_.group()};
          std::vector<int> rows(std::size_t(report.last_row - report.first_row + 1));
          std::iota(rows.begin(), rows.end(), report.first_row);
          one.paired = std::make_unique<MassLog>(shape, rows);
          GenerateRequest request = request_of(one, one.forced_feed);
          request.gold = {};
          request.max_new_tokens = 1;
          const Budget everything{.permille = {}, .tokens = report.last_row + 2};
          request.arms = {{fit_policy(parse_policy("sliding_window"),
                                      {everything, report.prompt_tokens, false}),
                           one.paired.get()}};
          if (one.arm.probe) {
            one.local = std::make_unique<MassLog>(shape, rows);
            request.arms.push_back({one.arm.policy, one.local.get()});
          }
          return request;
        },
        [&](Case& one, std::vector<GenerateArmResult>&) {
          AnswerReport& report = one.report;
          const MissedRequest missed{model_.n_layers, model_.n_kv_heads,     report.prompt_tokens,
                                     one.residents,   report.evidence_begin, report.evidence_end};
          for (const Frame frame : {Frame::kLocal, Frame::kPaired}) {
            const MassLog* log = frame == Frame::kLocal ? one.local.get() : one.paired.get();
            if (log == nullptr) continue;
            TopTokens top{frame, missed_tokens(frame, missed, *log, one.local.get()), 0};
            one.missed.clear();
            for (const MissedToken& token : top.tokens) one.missed.push_back(token.position);
            top.tokens.resize(std::min(top.tokens.size(), std::size_t(n_top(one))));
            top.n_evidence = int(std::ranges::count_if(top.tokens, &MissedToken::is_evidence));
            report.tops.push_back(std::move(top));
          }
        });
  }

  int n_top(const Case& one) const {
    if (request_.options.top > 0) return request_.options.top;
    return one.evidence.empty() ? ExplainOptions::kTopTokens : int(one.evidence.size());
  }

  Trial& add_trial(Case& one, std::string what, Positions positions) const {
    std::ranges::sort(positions);
    Trial& trial = one.report.trials.emplace_back();
    trial.what = std::move(what);
    trial.n_evidence = int(std::ranges::count_if(positions, [&](std::int32_t position) {
      return position >= one.report.evidence_begin && position < one.report.evidence_end;
    }));
    trial.positions = std::move(positions);
    return trial;
  }

  void plan_trials(Case& one) {
    std::size_t most = 0;
    for (const TopTokens& top : one.report.tops) {
      Positions positions;
      for (const MissedToken& token : top.tokens) positions.push_back(token.position);
      most = std::max(most, positions.size());
      add_trial(one, std::string(name_of(top.frame)), std::move(positions));
    }
    if (!one.evidence.empty()) add_trial(one, "evidence", one.evidence);
    Positions others = one.missed;
    std::erase_if(others, [&](std::int32_t position) {
      return std::ranges::any_of(one.report.tops, [&](const TopTokens& top) {
        return std::ranges::find(top.tokens, position, &MissedToken::position) != top.tokens.end();
      });
    });
    std::ranges::sort(others);
    for (int k = 0; k < request_.options.n_controls; ++k) {
      const std::uint64_t seed = request_.options.seed + std::uint64_t(k);
      Positions drawn = others;
      Random(seed, "restoration " + one.sample.key).shuffle(drawn);
      drawn.resize(std::min(drawn.size(), most));
      add_trial(one, "random", std::move(drawn)).seed = seed;
    }
  }

  bool restore() {
    return generate(
        [&](Case& one) -> std::optional<GenerateRequest> {
          if (one.missed.empty()) return std::nullopt;  // it lacks nothing
          plan_trials(one);
          GenerateRequest request = request_of(one, one.tokens.feed);
          for (Trial& trial : one.report.trials) {
            Restoration restoration =
                restore_everywhere(trial.positions, model_.n_layers, model_.n_kv_heads);
            restoration.room = request_.options.room;
            try {
              request.arms.push_back({restore_tokens(one.arm.policy, std::move(restoration))});
            } catch (const DoesNotFit& error) {
              trial.error = error.what();
            }
          }
          if (request.arms.empty()) return std::nullopt;
          return request;
        },
        [&](Case& one, std::vector<GenerateArmResult>& results) {
          std::size_t next = 0;
          for (Trial& trial : one.report.trials) {
            if (!trial.error.empty()) continue;
            const GenerateArmResult& result = results[next++];
            trial.error = result.error;
            if (!trial.error.empty()) continue;
            trial.answer = explained(one, result);
            trial.is_full_answer = trial.answer.ids == one.report.full.ids;
          }
        });
  }

  const ExplainRequest& request_;
  const ModelConfig& model_;
  std::optional<std::int32_t> stop_token_;
  std::vector<Case> cases_;
};

}  // namespace

const Trial* AnswerReport::trial(std::string_view what) const {
  const auto at = std::ranges::find(trials, what, &Trial::what);
  return at == trials.end() ? nullptr : &*at;
}

std::optional<std::vector<AnswerReport>> explain_answers(const ExplainRequest& request,
                                                         std::span<const Sample* const> samples) {
  return Explainer(request).run(samples);
}

}  // namespace kvscope
