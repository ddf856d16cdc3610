// Each arm has three rows after the shared prefill: its free answer, one forced along the full
// arm's answer (KL, top-1) and one forced along the gold answer. Arms that see the question and
// arms that do not are two requests: the same tokens, cut into prompt and prefix at another place.
#include "harness/tasks/answer_task.h"

#include <algorithm>
#include <chrono>

#include "datasets/chat/chat_template.h"
#include "harness/tasks/identity_check.h"
#include "harness/tasks/outcome.h"
#include "metrics/quality/answer_text.h"

namespace kvscope {
namespace {

constexpr std::size_t kRowsPerArm = 3;
constexpr std::size_t kMaxRows =
    64;  // beyond that, more rows no longer speed a read of the weights up
// Whose prompts' caches are held at once, one for each question visibility.
constexpr std::size_t kMaxSamples = 8;

// Arms of one sample as the engine sees them, and which outcome each of them belongs to.
struct Prepared {
  GenerateRequest request;
  std::vector<std::int32_t> prefix;     // what the request's prefix refers to, if it is not the
                                        // sample's own
  std::vector<FittedArm> fitted;        // of the request's arms
  std::vector<std::ptrdiff_t> outcome;  // index into the work's arms; -1: only run for comparison
};

class AnswerTask final : public Task {
 public:
  AnswerTask(Dataset dataset, AnswerScorer scorer)
      : dataset_(std::move(dataset)), scorer_(scorer) {}

  const Dataset& dataset() const override { return dataset_; }

  std::size_t batch_size(std::size_t n_arms) const override {
    return std::clamp<std::size_t>(kMaxRows / (kRowsPerArm * std::max<std::size_t>(n_arms, 1)), 1,
                                   kMaxSamples);
  }

  std::optional<std::vector<std::vector<SampleOutcome>>> run(
      const TaskRun& run, std::span<const SampleWork> work) const override {
    const std::optional<std::int32_t> stop_token = chat_for(run.tokenizer).turn_end();
    std::vector<std::vector<SampleOutcome>> outcomes(work.size());
    std::vector<Prepared> prepared;
    std::vector<std::size_t> work_of;  // prepared → work
    std::size_t n_running = 0;
    for (std::size_t i = 0; i < work.size(); ++i) {
      outcomes[i].resize(work[i].arms.size());
      for (const auto question : {QuestionVisibility::kVisible, QuestionVisibility::kHidden}) {
        Prepared p = prepare(run, work[i], question, outcomes[i]);
        if (p.request.arms.empty()) continue;
        p.request.stop_token = stop_token;
        n_running += p.request.arms.size();
        prepared.push_back(std::move(p));
        work_of.push_back(i);
      }
    }
    if (prepared.empty()) return outcomes;

    std::vector<GenerateRequest> requests;
    for (const Prepared& p : prepared) requests.push_back(p.request);
    const auto start = std::chrono::steady_clock::now();
    const auto results = run.engine.generate(requests, run.stop);
    if (!results) return std::nullopt;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const double share = elapsed.count() / static_cast<double>(n_running);

    for (std::size_t p = 0; p < prepared.size(); ++p) {
      const Sample& sample = dataset_.samples.at(work[work_of[p]].sample);
      for (std::size_t a = 0; a < prepared[p].fitted.size(); ++a) {
        if (prepared[p].outcome[a] < 0) continue;
        SampleOutcome outcome =
            answer_outcome(run, sample, prepared[p].fitted[a], a == 0 && prepared[p].request.forced,
                           (*results)[p][a], stop_token);
        outcome.n_prompt_tokens = static_cast<int>(prepared[p].request.prompt.size());
        if (outcome.status == OutcomeStatus::kOk) {
          const FittedArm& arm = prepared[p].fitted[a];
          const int cut = cut_tokens(prepared[p].request);
          outcome.kept_sets =
              check_kept_sets({arm.spec, *arm.policy, (*results)[p][a].resident_positions, cut, cut,
                               outcome.ledger});
        }
        outcome.duration_seconds = share;
        outcomes[work_of[p]][static_cast<std::size_t>(prepared[p].outcome[a])] = std::move(outcome);
      }
    }
    return outcomes;
  }

 private:
  // Tokens that the selection chooses from: without a prefix the last one of the prompt is fed
  // after it.
  static int cut_tokens(const GenerateRequest& request) {
    return static_cast<int>(request.prompt.size()) - (request.prefix.empty() ? 1 : 0);
  }

  // Prompt and prefix of one visibility; the two in a row are the same tokens for both.
  static void set_tokens(const Sample& sample, QuestionVisibility question, Prepared& p) {
    p.request.prompt = sample.prompt_ids;
    p.request.prefix = sample.prefix_ids;
    p.request.gold = sample.gold_ids;
    if (question == QuestionVisibility::kVisible) return;
    const auto asked = p.request.prompt.subspan(std::size_t(sample.question_begin));
    p.prefix.assign(asked.begin(), asked.end());
    p.prefix.insert(p.prefix.end(), sample.prefix_ids.begin(), sample.prefix_ids.end());
    p.request.prompt = p.request.prompt.first(std::size_t(sample.question_begin));
    p.request.prefix = p.prefix;
  }

  // The work's arms of one visibility with `full` before them; no arms if there is nothing to run.
  Prepared prepare(const TaskRun& run, const SampleWork& work, QuestionVisibility question,
                   std::vector<SampleOutcome>& outcomes) const {
    const Sample& sample = dataset_.samples.at(work.sample);
    Prepared p;
    std::vector<std::size_t> wanted;  // indices into the work's arms
    for (std::size_t j = 0; j < work.arms.size(); ++j) {
      if (run.arms[work.arms[j]].question == question) wanted.push_back(j);
    }
    if (wanted.empty()) return p;
    // Nothing before the question (an empty document), or tokens that do not decode to the text.
    if (question == QuestionVisibility::kHidden && sample.question_begin < 1) {
      for (const std::size_t j : wanted) {
        outcomes[j] = skipped_outcome(
            "no_question", "it is not known which of the prompt's tokens are the question");
      }
      return p;
    }
    set_tokens(sample, question, p);
    p.request.max_new_tokens = sample.max_new_tokens;
    const int prompt = static_cast<int>(p.request.prompt.size());
    const int length = cut_tokens(p.request);
    const int answer = std::max(sample.max_new_tokens, static_cast<int>(sample.gold_ids.size()));
    const int positions = prompt + static_cast<int>(p.request.prefix.size()) + answer;
    const int context = run.engine.model().config.context_length;
    // Beyond the trained length only arms whose positions stay bounded run; there is no full arm to
    // compare with then.
    const bool beyond = positions > context && !run.beyond_context;
    const auto add = [&](std::size_t arm_index, std::ptrdiff_t outcome) {
      const ArmPlan& arm = run.arms[arm_index];
      FittedArm fitted = fit_arm(run, arm, {arm.budget, length, false}, length);
      if (beyond && fitted.policy && !has_bounded_positions(*fitted.policy, false, context)) {
        fitted.policy = nullptr;
        fitted.skipped = beyond_context_outcome(positions, context);
      }
      if (!fitted.policy) {
        if (outcome >= 0) outcomes[static_cast<std::size_t>(outcome)] = fitted.skipped;
        return;
      }
      p.request.arms.push_back({fitted.policy, fitted.probe.get()});
      p.fitted.push_back(std::move(fitted));
      p.outcome.push_back(outcome);
    };
    const auto full = std::ranges::find(run.arms, question, &ArmPlan::question);
    const auto reference = static_cast<std::size_t>(full - run.arms.begin());
    if (work.arms[wanted.front()] != reference) add(reference, -1);
    for (const std::size_t j : wanted) add(work.arms[j], static_cast<std::ptrdiff_t>(j));
    p.request.forced = !beyond;
    p.request.want_residents = true;
    return p;
  }

  SampleOutcome answer_outcome(const TaskRun& run, const Sample& sample, const FittedArm& fitted,
                               bool is_reference, const GenerateArmResult& result,
                               std::optional<std::int32_t> stop_token) const {
    SampleOutcome outcome;
    if (!result.error.empty()) {
      outcome = engine_error_outcome(result.error);
      outcome.mode_run = name_of(result.mode);
      return outcome;
    }
    outcome.has_output = true;
    outcome.output_ids = result.new_ids;
    std::span<const std::int32_t> spoken(result.new_ids);
    const std::vector<std::int32_t>& ends = run.engine.model().config.stop_tokens;
    if (!spoken.empty() && stop_token &&
        (spoken.back() == *stop_token || std::ranges::find(ends, spoken.back()) != ends.end())) {
      spoken = spoken.first(spoken.size() - 1);
    }
    outcome.output_text = run.tokenizer.decode(spoken);
    outcome.gold_text = sample.golds.empty() ? std::string() : sample.golds.front();
    scorer_(cut_answer(outcome.output_text, sample.answer_cut), sample, outcome);
    add_metric(outcome, "gold_nll_nats", mean_of(std::span<const float>(result.gold_nll_nats)));
    // The reference has no forced row: its answer is the one that the others are forced along.
    add_metric(outcome, "kl_full_nats",
               is_reference ? 0.0 : mean_of(std::span<const float>(result.kl_full_nats)));
    outcome.n_compared =
        static_cast<int>(is_reference ? result.new_ids.size() : result.kl_full_nats.size());
    add_metric(outcome, "top1_agreement",
               is_reference ? 1.0 : mean_of(std::span<const std::uint8_t>(result.top1_agrees)));
    add_bins(outcome, result.ledger, result.kl_full_nats, result.top1_agrees);
    add_measurements(outcome, result.ledger, result.mode, fitted.probe.get());
    outcome.prefill_seconds = result.prefill_seconds;
    outcome.decode_seconds_per_step = result.decode_seconds_per_step;
    outcome.n_decode_steps = result.decode_steps;
    outcome.fitted_params = fitted.policy->fitted_params();
    return outcome;
  }

  static std::string_view cut_answer(std::string_view text, AnswerCut cut) {
    switch (cut) {
      case AnswerCut::kNone:
        return text;
      case AnswerCut::kFirstLine:
        return first_line(text);
      case AnswerCut::kSentenceRest:
        return sentence_rest(text);
    }
    return text;
  }

  Dataset dataset_;
  AnswerScorer scorer_;
};

}  // namespace

std::unique_ptr<Task> make_answer_task(Dataset dataset, AnswerScorer scorer) {
  return std::make_unique<AnswerTask>(std::move(dataset), scorer);
}

}  // namespace kvscope
