#include "harness/gpu_check/observed.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "harness/gpu_check/check_model.h"
#include "metrics/probes/attention_probe.h"

namespace kvscope {
namespace {

constexpr int kPermille = 200;
constexpr int kPrefixTokens = 8;
constexpr int kGoldTokens = 8;

constexpr CheckArm kArms[] = {{"full", "full", false},
                              {"streaming_llm", "streaming_llm", false},
                              {"h2o", "h2o", true},
                              {"snapkv", "snapkv", true}};

std::unique_ptr<AttentionProbe> make_probe(const ModelConfig& c, const Policy& policy) {
  // Where positions shift there are no ghosts to compare with.
  if (policy.never_evicts() || policy.positions() != PositionMode::kAbsolute) return nullptr;
  return std::make_unique<AttentionProbe>(AttentionProbeShape{c.n_layers, c.n_kv_heads, c.group()});
}

void observe_probe(Observed& observed, const AttentionProbe* probe) {
  if (probe == nullptr) return;
  const ProbeSummary summary = probe->summary();
  observed.rebound_mass = summary.rebound_mass.overall.mean;
  observed.hit_at_32 = summary.hit_at_32.overall.mean;
}

std::vector<double> finite(std::span<const double> values) {  // NaN: not scored
  std::vector<double> out;
  std::ranges::copy_if(values, std::back_inserter(out), [](double v) { return !std::isnan(v); });
  return out;
}

// The text under every arm.
std::vector<Observed> observe_score(CheckModel& check, const AgreementWork& work) {
  const ModelConfig& c = work.config;
  const std::vector<std::int32_t> tokens = check_tokens(c, work.score_tokens, 1);
  const int half = work.score_tokens / 2;
  ScoreRequest request;
  request.tokens = tokens;
  request.prompt_tokens = half;
  request.first_scored = half;
  request.want_residents = true;
  request.compare_full = true;
  std::vector<ScoreArm> arms;
  std::vector<std::unique_ptr<AttentionProbe>> probes;
  for (const CheckArm& arm : kArms) {
    const auto policy = check_policy(arm.policy, kPermille, half, true);
    probes.push_back(make_probe(c, *policy));
    arms.push_back({policy, probes.back().get(), policy->acts_in_stream()});
  }
  std::vector<Observed> out;
  auto results = check.engine.score(request, arms).value();
  for (ScoreArmResult& result : results) {
    Observed observed;
    observed.error = result.error;
    observed.nll_nats = finite(result.nll_nats);
    const std::vector<double> kl(result.kl_full_nats.begin(), result.kl_full_nats.end());
    observed.kl_nats = finite(kl);
    observed.kept = std::move(result.resident_positions);
    observed.ledger = std::move(result.ledger);
    observe_probe(observed, probes[out.size()].get());
    out.push_back(std::move(observed));
  }
  return out;
}

struct Prompt {
  std::vector<std::int32_t> prompt, prefix, gold;
};

// Prompts that decode together, under every arm: [prompts][arms].
std::vector<std::vector<Observed>> observe_answers(CheckModel& check, const AgreementWork& work,
                                                   std::span<const Prompt> prompts) {
  std::vector<GenerateRequest> requests;
  std::vector<std::unique_ptr<AttentionProbe>> probes;  // [prompts * arms]
  for (const Prompt& prompt : prompts) {
    GenerateRequest request;
    request.prompt = prompt.prompt;
    request.prefix = prompt.prefix;
    request.gold = prompt.gold;
    request.max_new_tokens = work.answer_tokens;
    request.forced = true;
    request.want_residents = true;
    for (const CheckArm& arm : kArms) {
      const auto policy = check_policy(arm.policy, kPermille, int(prompt.prompt.size()), false);
      probes.push_back(make_probe(work.config, *policy));
      request.arms.push_back({policy, probes.back().get()});
    }
    requests.push_back(std::move(request));
  }
  std::vector<std::vector<Observed>> out;
  std::size_t probe = 0;
  auto all_results = check.engine.generate(requests).value();
  for (std::vector<GenerateArmResult>& results : all_results) {
    std::vector<Observed>& row = out.emplace_back();
    for (GenerateArmResult& result : results) {
      Observed observed;
      observed.error = result.error;
      observed.nll_nats.assign(result.gold_nll_nats.begin(), result.gold_nll_nats.end());
      observed.kl_nats.assign(result.kl_full_nats.begin(), result.kl_full_nats.end());
      observed.answer = result.new_ids;
      observed.full_answer = results.front().new_ids;
      observed.kept = std::move(result.resident_positions);
      observed.ledger = std::move(result.ledger);
      observe_probe(observed, probes[probe++].get());
      row.push_back(std::move(observed));
    }
  }
  return out;
}

}  // namespace

std::span<const CheckArm> check_arms() { return kArms; }

std::vector<ObservedWork> observe(const AgreementWork& work, Backend& backend) {
  CheckModel check(work.config, work.dtype, backend);
  check.engine.use_prefix_cache(std::int64_t{256} << 20);
  std::vector<ObservedWork> all = {{"score", observe_score(check, work)}};
  const auto prefix = check_tokens(work.config, kPrefixTokens, 2);
  const auto gold = check_tokens(work.config, kGoldTokens, 3);
  const std::vector<Prompt> needle = {
      {check_tokens(work.config, work.prompt_tokens, 4), prefix, gold}};
  all.push_back({"needle", observe_answers(check, work, needle).front()});
  // Two questions about one document: a common beginning, the last tokens differ.
  const auto document = check_tokens(work.config, work.prompt_tokens / 2, 5);
  std::vector<Prompt> questions(2, Prompt{document, {}, gold});  // nothing is fed after them
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto question = check_tokens(work.config, 12, 6 + i);
    questions[i].prompt.insert(questions[i].prompt.end(), question.begin(), question.end());
  }
  auto answers = observe_answers(check, work, questions);
  all.push_back({"qa 1", std::move(answers[0])});
  all.push_back({"qa 2", std::move(answers[1])});
  return all;
}

}  // namespace kvscope
