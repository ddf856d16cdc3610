// Perplexity: a text in windows without overlap. The first half of a window is the prompt, which
// budget ratios refer to; the second half is scored, in every arm alike. Policies with an in-stream
// rule act from the first token on; the others cut once, at the half. Every prediction's NLL and KL
// is kept. There is no question: arms that must not see it are skipped.
#include "harness/tasks/perplexity.h"

#include <chrono>
#include <map>

#include "datasets/text/text_windows.h"
#include "harness/tasks/identity_check.h"
#include "harness/tasks/outcome.h"
#include "runner/base/error.h"

namespace kvscope {
namespace {

constexpr TaskKey kKeys[] = {
    {.name = "windows",
     .fallback = "4",
     .least = 0,
     .most = 1e6,
     .help = "how many windows from the start of the text, 0 = all"},
    {.name = "context",
     .fallback = "",
     .least = 4,
     .most = 1e6,
     .help = "tokens of a window; default --context"},
    {.name = "convention",
     .fallback = "second_half",
     .kind = TaskValue::kWord,
     .words = "second_half|llama.cpp",
     .help = "what is scored of a window of n: tokens n/2 to n-1, or as llama-perplexity does"},
};

// Arms that act from the first token and differ only in how a prompt would be prefilled do the same
// here: there is no prefill.
PolicySpec as_run(PolicySpec policy) {
  if (!policy.acts_in_stream()) return policy;
  policy.prefill = PrefillMode::kMonolithic;
  policy.chunk = 1;
  return policy;
}

std::string work_key(const ArmPlan& arm) {
  std::string key = arm.policy.score + '@' + arm.budget.label();
  const bool in_stream = arm.policy.acts_in_stream();
  for (const auto& [name, value] : arm.policy.params) {
    if (!in_stream || (name != "prefill" && name != "chunk")) key += ':' + name + '=' + value;
  }
  for (const PartSpec& part : arm.policy.parts) {
    key += '+' + part.name;
    for (const auto& [name, value] : part.params) key += ':' + name + '=' + value;
  }
  return key;
}

class PerplexityTask final : public Task {
 public:
  explicit PerplexityTask(Dataset dataset) : dataset_(std::move(dataset)) {}

  const Dataset& dataset() const override { return dataset_; }
  std::size_t batch_size(std::size_t) const override { return 1; }

  std::optional<std::vector<std::vector<SampleOutcome>>> run(
      const TaskRun& run, std::span<const SampleWork> work) const override {
    std::vector<std::vector<SampleOutcome>> outcomes;
    for (const SampleWork& item : work) {
      auto done = run_window(run, dataset_.windows.at(item.sample), item.arms);
      if (!done) return std::nullopt;
      outcomes.push_back(std::move(*done));
    }
    return outcomes;
  }

 private:
  struct Member {  // one call to the engine, for all arms that share it
    FittedArm fitted;
    std::vector<std::size_t> outcomes;
  };

  static std::optional<std::vector<SampleOutcome>> run_window(
      const TaskRun& run, const TextWindow& window, std::span<const std::size_t> arm_indices) {
    const int half = static_cast<int>(window.ids.size()) / 2;
    const int context = run.engine.model().config.context_length;
    const int n_tokens = static_cast<int>(window.ids.size());
    const bool beyond = n_tokens > context && !run.beyond_context;

    std::vector<SampleOutcome> outcomes(arm_indices.size());
    std::vector<Member> members;
    std::map<std::string, std::size_t> member_of;
    for (std::size_t i = 0; i < arm_indices.size(); ++i) {
      const ArmPlan& arm = run.arms[arm_indices[i]];
      if (arm.question == QuestionVisibility::kHidden) {
        outcomes[i] = skipped_outcome("no_question", "a text has no question to hide");
        continue;
      }
      const auto [it, fresh] = member_of.try_emplace(work_key(arm), members.size());
      if (fresh) {
        const bool in_stream = arm.policy.acts_in_stream();
        const ArmPlan same{as_run(arm.policy), arm.budget, arm.question};
        members.push_back(
            {fit_arm(run, same, {arm.budget, half, in_stream}, {half, window.input_sha256}), {}});
        FittedArm& fitted = members.back().fitted;
        if (beyond && fitted.policy && !has_bounded_positions(*fitted.policy, in_stream, context)) {
          fitted.policy = nullptr;
          fitted.skipped = beyond_context_outcome(n_tokens, context);
        }
      }
      members[it->second].outcomes.push_back(i);
    }

    std::vector<ScoreArm> arms;
    std::vector<Member*> running;
    for (Member& member : members) {
      if (!member.fitted.policy) {
        for (const std::size_t i : member.outcomes) outcomes[i] = member.fitted.skipped;
        continue;
      }
      arms.push_back({member.fitted.policy, member.fitted.probe.get(),
                      member.fitted.policy->acts_in_stream()});
      running.push_back(&member);
    }
    if (arms.empty()) return outcomes;

    ScoreRequest request;
    request.tokens = window.ids;
    request.prompt_tokens = half;
    request.first_scored = window.first_scored;
    request.compare_full = !beyond;
    request.want_residents = true;
    const auto start = std::chrono::steady_clock::now();
    const auto results = run.engine.score(request, arms, run.stop);
    if (!results) return std::nullopt;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;

    for (std::size_t m = 0; m < running.size(); ++m) {
      SampleOutcome outcome = score_outcome((*results)[m], *running[m], request);
      outcome.duration_seconds = elapsed.count() / static_cast<double>(running.size());
      for (const std::size_t i : running[m]->outcomes) outcomes[i] = outcome;
    }
    return outcomes;
  }

  static SampleOutcome score_outcome(const ScoreArmResult& result, const Member& member,
                                     const ScoreRequest& request) {
    SampleOutcome outcome;
    const std::size_t n_tokens = request.tokens.size();
    const auto first = static_cast<std::size_t>(request.first_scored);
    if (!result.error.empty()) {
      outcome = engine_error_outcome(result.error);
      outcome.mode_run = name_of(result.mode);
      return outcome;
    }
    outcome.trace_first_position = request.first_scored;
    for (std::size_t t = first; t < n_tokens; ++t) {
      outcome.trace_nll_nats.push_back(static_cast<float>(result.nll_nats[t]));
    }
    double sum = 0;  // of the doubles, not of what the trace keeps
    for (std::size_t t = first; t < n_tokens; ++t) sum += result.nll_nats[t];
    add_metric(outcome, "nll_nats", sum / static_cast<double>(n_tokens - first));
    if (request.compare_full) {
      // Entry t - 1 is the distribution that predicts token t.
      outcome.trace_kl_nats.assign(result.kl_full_nats.begin() + std::ptrdiff_t(first) - 1,
                                   result.kl_full_nats.begin() + std::ptrdiff_t(n_tokens) - 1);
      outcome.n_compared = static_cast<int>(outcome.trace_kl_nats.size());
      add_metric(outcome, "kl_full_nats", mean_of(std::span<const float>(outcome.trace_kl_nats)));
      add_metric(outcome, "top1_agreement",
                 mean_of(std::span(result.top1_agrees).subspan(first - 1, n_tokens - first)));
    }
    add_bins(outcome, result.ledger, outcome.trace_kl_nats,
             request.compare_full
                 ? std::span(result.top1_agrees).subspan(first - 1, n_tokens - first)
                 : std::span<const std::uint8_t>());
    add_measurements(outcome, result.ledger, result.mode, member.fitted.probe.get());
    const bool in_stream = result.mode == PrefillMode::kInStream;
    outcome.kept_sets = check_kept_sets(
        {member.fitted.spec, *member.fitted.policy, result.resident_positions,
         in_stream ? 0 : request.prompt_tokens, static_cast<int>(n_tokens), outcome.ledger});
    outcome.fitted_params = member.fitted.policy->fitted_params();
    outcome.n_prompt_tokens = request.prompt_tokens;
    outcome.n_decode_steps = static_cast<int>(n_tokens - first);
    return outcome;
  }

  Dataset dataset_;
};

std::unique_ptr<Task> make_perplexity(const TaskSpec& spec, const TaskFiles& files,
                                      const Tokenizer& tokenizer) {
  if (files.text.empty()) {
    throw UsageError(
        "task 'perplexity' needs a text: give --text FILE, or run scripts/prepare-texts once for "
        "three books");
  }
  const int context = spec.was_written("context") ? spec.integer("context") : files.context;
  const auto convention = spec.word("convention") == "llama.cpp" ? WindowConvention::kLlamaCpp
                                                                 : WindowConvention::kSecondHalf;
  return std::make_unique<PerplexityTask>(load_text_windows(
      files.text, {.context = context, .limit = spec.integer("windows"), .convention = convention},
      tokenizer));
}

}  // namespace

const TaskInfo kPerplexityTask = {"perplexity",
                                  "How well the second half of each window of a text is predicted.",
                                  "nll_nats", kKeys, make_perplexity};

}  // namespace kvscope
