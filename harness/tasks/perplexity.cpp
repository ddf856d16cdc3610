// Perplexity: texts in windows. The first half of a window is the prompt, which budget ratios refer
// to; what is scored, in every arm alike, depends on the convention. Policies with an in-stream
// rule act from the first token on; the others cut once, at the half. Every prediction's NLL and KL
// is kept. There is no question: arms that must not see it are skipped.
#include "harness/tasks/perplexity.h"

#include <chrono>
#include <map>
#include <numbers>

#include "datasets/text/corpora.h"
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
     .help = "how many windows, from the documents in turn, 0 = all; of a stream 1"},
    {.name = "context",
     .fallback = "",
     .least = 4,
     .most = 1e6,
     .help = "tokens of a window; default --context"},
    {.name = "convention",
     .fallback = "second_half",
     .kind = TaskValue::kWord,
     .words = "second_half|llama.cpp|lm-eval",
     .help =
         "what is scored of a window of n: tokens n/2 to n-1, as llama-perplexity does, or every "
         "token of a document as lm-eval does"},
    {.name = "stride",
     .fallback = "",
     .least = 1,
     .most = 1e6,
     .help = "windows slide by so many tokens, and the newest so many are scored"},
    {.name = "stream",
     .fallback = "",
     .least = 4,
     .most = 1e7,
     .help = "one window of so many tokens, all but the first scored; instead of context"},
    {.name = "layout",
     .fallback = "plain",
     .kind = TaskValue::kWord,
     .words = "plain|wikitext",
     .help = "wikitext: a document a page, scored detokenised"},
};

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
        const ArmPlan same{as_run_in_stream(arm.policy), arm.budget, arm.question};
        members.push_back({fit_arm(run, same, {arm.budget, half, in_stream},
                                   {half, window.input_sha256}, run.trace.wants(window.key)),
                           {}});
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
      arms.push_back(
          {member.fitted.policy, member.fitted.sink(), member.fitted.policy->acts_in_stream()});
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
      if (outcome.status == OutcomeStatus::kOk) {
        add_events(outcome, running[m]->fitted, run.tokenizer, window.ids, outcome.trace_kl_nats,
                   window.first_scored - 1);
        add_rates(window, outcome);
      }
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

  // NLL by word, by byte and by position.
  static void add_rates(const TextWindow& window, SampleOutcome& outcome) {
    double sum_nats = 0;
    for (const float nll : outcome.trace_nll_nats) sum_nats += static_cast<double>(nll);
    if (window.scored_words > 0) {
      add_metric(outcome, "nll_nats_per_word", sum_nats / window.scored_words);
    }
    if (window.scored_bytes > 0) {
      add_metric(outcome, "bits_per_byte", sum_nats / std::numbers::ln2 / window.scored_bytes);
    }
    add_steps(outcome, "nll_nats", outcome.trace_nll_nats);
  }

  Dataset dataset_;
};

WindowOptions window_options(const TaskSpec& spec, const TaskFiles& files) {
  WindowOptions options;
  options.context = spec.was_written("context") ? spec.integer("context") : files.context;
  options.limit = spec.integer("windows");
  if (spec.word("layout") == "wikitext") options.layout = TextLayout::kWikitext;
  if (spec.word("convention") == "llama.cpp") options.convention = WindowConvention::kLlamaCpp;
  if (spec.word("convention") == "lm-eval") options.convention = WindowConvention::kLmEval;
  const int ways =
      spec.was_written("convention") + spec.was_written("stride") + spec.was_written("stream");
  if (ways > 1) {
    throw UsageError(
        "task 'perplexity': convention, stride and stream each say what is scored; give one");
  }
  if (spec.was_written("stride")) {
    options.convention = WindowConvention::kSliding;
    options.stride = spec.integer("stride");
  }
  if (spec.was_written("stream")) {
    if (spec.was_written("context")) {
      throw UsageError("task 'perplexity': a stream is one window; leave context out");
    }
    options.convention = WindowConvention::kStream;
    options.context = spec.integer("stream");
    if (!spec.was_written("windows")) options.limit = 1;
  }
  return options;
}

std::unique_ptr<Task> make_perplexity(const TaskSpec& spec, const TaskFiles& files,
                                      const Tokenizer& tokenizer) {
  const WindowOptions options = window_options(spec, files);
  if (!files.corpus.empty()) {
    if (options.layout == TextLayout::kWikitext) {
      throw UsageError("task 'perplexity': layout=wikitext is for --text; a corpus is plain");
    }
    return std::make_unique<PerplexityTask>(
        make_text_windows(files.corpus, {load_corpus(files.corpus)}, options, tokenizer));
  }
  if (files.text.empty()) {
    throw UsageError(
        "task 'perplexity' needs a text: give --text FILE or --corpus NAME, or run "
        "scripts/prepare-texts once for three books");
  }
  return std::make_unique<PerplexityTask>(load_text_windows(files.text, options, tokenizer));
}

}  // namespace

PolicySpec as_run_in_stream(PolicySpec policy) {
  if (!policy.acts_in_stream()) return policy;
  policy.prefill = PrefillMode::kMonolithic;
  policy.chunk = 1;
  return policy;
}

const TaskInfo kPerplexityTask = {"perplexity",
                                  "How well a text is predicted, in windows or as a stream.",
                                  "nll_nats", kKeys, make_perplexity};

}  // namespace kvscope
